// A solver in C++ whose volume kernel is the one of seissol_volume.py; exported_kernel.py builds and runs it.
//
// It reads matrices of doubles from files in the folder that is its argument, and writes the result beside them.  The
// memory is its own: a CPU takes any address.  For GPUs it would be allocated with clSharedMemAllocINTEL.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tl_opencl.h"
#include "volume.h"

namespace {

void check(cl_int code, const char *what)
{
    if (code != CL_SUCCESS) {
        std::cerr << what << " fails with code " << code << "\n";
        std::exit(1);
    }
}

std::vector<double> read(const std::string &path)
{
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::vector<double> numbers(static_cast<size_t>(file.tellg()) / sizeof(double));
    file.seekg(0);
    file.read(reinterpret_cast<char *>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(double)));
    return numbers;
}

// A group is a table of the addresses of its elements, which here follow one another.
template <typename Number>
std::vector<Number *> table(std::vector<double> &numbers, size_t cells)
{
    std::vector<Number *> addresses(cells);
    for (size_t cell = 0; cell < cells; cell++)
        addresses[cell] = numbers.data() + cell * (numbers.size() / cells);
    return addresses;
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 3) {
        std::cerr << "usage: " << arguments[0] << " FOLDER CELLS\n";
        return 2;
    }
    const std::string folder = std::string(arguments[1]) + "/";
    const size_t cells = std::stoul(arguments[2]);
    auto I = read(folder + "I"), Q = read(folder + "Q");
    std::vector<double> S[3], K[3];
    std::vector<const double *> stars[3];
    for (int d = 0; d < 3; d++) {
        S[d] = read(folder + "S" + std::to_string(d));
        K[d] = read(folder + "K" + std::to_string(d));
        stars[d] = table<const double>(S[d], cells);
    }
    auto dofs = table<const double>(I, cells);
    auto result = table<double>(Q, cells);

    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr), "clGetDeviceIDs");
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, nullptr, &code);
    check(code, "clCreateCommandQueueWithProperties");

    tl_opencl *volume;
    check(tl_opencl_create(&volume_kernel, context, device, &volume), "tl_opencl_create");
    volume_arguments given;
    given.I_ = dofs.data();
    given.S0 = stars[0].data();
    given.S1 = stars[1].data();
    given.S2 = stars[2].data();
    given.K0 = K[0].data();
    given.K1 = K[1].data();
    given.K2 = K[2].data();
    given.Q = result.data();
    tl_value values[volume_count];
    volume_values(&given, values);
    const auto bytes = static_cast<int64_t>((I.size() + Q.size() + 3 * S[0].size() + 3 * K[0].size()) * sizeof(double));
    check(tl_opencl_launch(volume, queue, static_cast<int64_t>(cells), bytes, values, 0, nullptr, nullptr),
          "tl_opencl_launch");
    check(clFinish(queue), "clFinish");

    std::ofstream(folder + "result", std::ios::binary)
        .write(reinterpret_cast<const char *>(Q.data()), static_cast<std::streamsize>(Q.size() * sizeof(double)));
    tl_opencl_release(volume);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}
