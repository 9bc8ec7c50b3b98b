"""A product in f64 by products of 8-bit integers, after Ozaki: matrix units for integers compute it to any accuracy.

Each row of A and each column of B is scaled by a power of two to numbers below 1, which are cut into digits of 7 bits:
x = d₁ 2⁻⁷ + d₂ 2⁻¹⁴ + …, the error-free transformation of Ozaki, Ogita, Oishi and Rump ("Error-free transformations
of matrix multiplication by using fast routines of matrix multiplication and its applications", Numerical Algorithms,
2012), in the integers of Ootomo, Ozaki and Yokota ("DGEMM on integer matrix multiplication unit", IJHPCA, 2024).

Why it is exact: a digit is at most 127, a product of two at most 127² < 2¹⁴, and i32 has room for 2³¹ / 127² of them:
no sum is rounded.  So the only errors are the digits that are left out, of 2⁻⁷ⁿ of the largest elements for n of them,
and the sums of a few numbers of f64 at the end.
Products of the digits s and t have the same power of two where s + t is the same.  They are one product of matrices:
the digits d₁ d₂ … of A side by side, times those of B one below the other in the opposite order, … d₂ d₁.
"""

import timeit

import dpctl.tensor as dpt
import dpnp
import numpy as np

import tl_dpnp

ROWS, COLUMNS, TERMS = 256, 192, 320
#: Tiles of the result, in the i32 of which the products are summed up.
TILE = {"rows": 64, "columns": 32}
LARGEST_DIGIT = 127

SOURCE = """
; The digits of numbers below 1, the first of each at the place %first and the next one %step places behind it.
func @digits(%x: memref<f64x?x?>, %first: index, %step: index, %digits: memref<i8x?x?x?>) {
  %j = group_id.x : index
  %c0 = constant 0 : index
  %rows = size %x[0] : index
  %count = size %digits[1] : index
  foreach (%i) = (%c0), (%rows) {
    %value = load %x[%i,%j] : f64
    for %s = %c0, %count init(%rest=%value) -> (f64) {
      %shifted = mul %rest, 128.0 : f64
      %digit = cast %shifted : i8                          ; towards 0
      %whole = cast %digit : f64
      %next = sub %shifted, %whole : f64                   ; exact: the bits behind the digit
      %behind = mul %s, %step : index
      %place = add %first, %behind : index
      store %digit, %digits[%i,%place,%j]
      yield (%next)
    }
  }
}

; C from the digits of the transpose of A, terms x digits x rows, and those of B, whose last ones come first.
; %rows and %columns are what A and B were scaled by, %least the power of two of the least digits.
func @product(%A: memref<i8x?x?x?>, %B: memref<i8x?x?x?>, %rows: memref<f64x?>, %columns: memref<f64x?>, %least: f64,
              %C: memref<f64x?x?>) {
  %row = group_id.x : index
  %column = group_id.y : index
  %tile_rows = constant $rows : index
  %tile_columns = constant $columns : index
  %c0 = constant 0 : index
  %terms = size %A[0] : index
  %count = size %A[1] : index
  %all_rows = size %C[0] : index
  %all_columns = size %C[1] : index
  %i = mul %row, %tile_rows : index
  %j = mul %column, %tile_columns : index
  %rows_left = sub %all_rows, %i : index
  %columns_left = sub %all_columns, %j : index
  %m = min %rows_left, %tile_rows : index
  %n = min %columns_left, %tile_columns : index
  %a = fuse %A[0,1] : memref<i8x?x?>
  %b = fuse %B[0,1] : memref<i8x?x?>
  %c = subview %C[%i:%m,%j:%n] : memref<f64x?x?,strided<1,?>>
  %tile = alloca : memref<i32x$rows x $columns,local>
  %t = subview %tile[%c0:%m,%c0:%n] : memref<i32x?x?,strided<1,$rows>,local>
  foreach (%x, %y) = (%c0, %c0), (%m, %n) { store 0.0, %c[%x,%y] }
  for %d = %c0, %count init(%weight=%least) -> (f64) {     ; least products first
    %digits = sub %count, %d : index
    %k = mul %digits, %terms : index
    %start = mul %d, %terms : index
    %left = subview %a[%c0:%k,%i:%m] : memref<i8x?x?,strided<1,?>>
    %right = subview %b[%start:%k,%j:%n] : memref<i8x?x?,strided<1,?>>
    gemm.t.n 1, %left, %right, 0, %t
    foreach (%x, %y) = (%c0, %c0), (%m, %n) {
      %sum = load %t[%x,%y] : i32
      %exact = cast %sum : f64
      %scaled = mul %exact, %weight : f64
      %before = load %c[%x,%y] : f64
      %after = add %before, %scaled : f64
      store %after, %c[%x,%y]
    }
    %larger = mul %weight, 128.0 : f64
    yield (%larger)
  }
  foreach (%x, %y) = (%c0, %c0), (%m, %n) {
    %xi = add %i, %x : index
    %yj = add %j, %y : index
    %by_row = load %rows[%xi] : f64
    %by_column = load %columns[%yj] : f64
    %by_both = mul %by_row, %by_column : f64
    %small = load %c[%x,%y] : f64
    %right_size = mul %small, %by_both : f64
    store %right_size, %c[%x,%y]
  }
}
"""


def powers_above(matrix, axis):
    """Return a power of two above all numbers in each row or column."""
    _, exponents = np.frexp(np.abs(matrix).max(axis=axis))
    return np.ldexp(1.0, exponents)


class IntegerProduct:
    """The product of two matrices of f64 by some digits of each element."""

    def __init__(self, kernels, a, b, digits):
        assert digits * TERMS * LARGEST_DIGIT**2 < 2**31, "a sum of products could leave i32"
        self.kernels, self.digits, self.a, self.b = kernels, digits, a, b
        self.result = dpnp.empty((ROWS, COLUMNS), order="F")
        self.digits_of_a = dpt.empty((TERMS, digits, ROWS), dtype="i1", order="F")
        self.digits_of_b = dpt.empty((TERMS, digits, COLUMNS), dtype="i1", order="F")

    def __call__(self):
        rows, columns = powers_above(self.a, 1), powers_above(self.b, 0)
        last, groups = self.digits - 1, (-(-ROWS // TILE["rows"]), -(-COLUMNS // TILE["columns"]), 1)
        self.kernels.digits(dpnp.asarray((self.a / rows[:, None]).T, order="F"), 0, 1, self.digits_of_a)
        self.kernels.digits(dpnp.asarray(self.b / columns, order="F"), last, -1, self.digits_of_b)
        self.kernels.product(self.digits_of_a, self.digits_of_b, dpnp.asarray(rows), dpnp.asarray(columns),
                             2.0 ** (-7 * (self.digits + 1)), self.result, group_size=groups)
        return self.result.asnumpy()


def main():
    """Compute with more and more digits, compare with a product in extended precision, and time it beside NumPy."""
    random = np.random.default_rng(7)

    def matrix(*shape):  # of many magnitudes
        return random.standard_normal(shape) * np.exp(random.standard_normal(shape))

    a, b = matrix(ROWS, TERMS), matrix(TERMS, COLUMNS)
    exact, magnitude = a.astype(np.longdouble) @ b.astype(np.longdouble), np.abs(a) @ np.abs(b)
    kernels = tl_dpnp.compile(SOURCE, define=TILE)
    programs = {digits: IntegerProduct(kernels, a, b, digits) for digits in range(3, 10)}
    errors = {"NumPy": float((np.abs(a @ b - exact) / magnitude).max())}
    bound = powers_above(a, 1)[:, None] * powers_above(b, 0) * TERMS / magnitude
    for digits, program in programs.items():
        error = np.abs(program() - exact) / magnitude
        # Digits that are left out, in either factor and in products of low ones, and sums of f64.
        allowed = bound * (digits + 3) * 2.0 ** (-7 * digits) + (digits + 3) * 2.0**-53 + 2.0**-63 * TERMS
        assert (error <= allowed).all(), f"{digits} digits are wrong: error {error.max()}"
        errors[digits] = float(error.max())
    calls = {"NumPy": lambda: a @ b, **programs}
    rounds = [[timeit.timeit(call, number=1) for call in calls.values()] for _ in range(5)]
    times = dict(zip(calls, map(min, zip(*rounds, strict=True)), strict=True))
    print(f"{ROWS} x {COLUMNS} x {TERMS}; errors are relative to |A| |B|\n")
    print(f"{'digits':>8}{'integer products':>18}{'error':>10}{'x the time of NumPy':>21}")
    for digits in programs:
        print(f"{digits:8}{digits * (digits + 1) // 2:18}{errors[digits]:10.1e}{times[digits] / times['NumPy']:21.1f}")
    print(f"{'f64':>8}{'':18}{errors['NumPy']:10.1e}{1.0:21.1f}")
    print(f"\nchecked {len(programs)} numbers of digits against a product in extended precision")


if __name__ == "__main__":
    main()
