"""PyTorch functions as kernels: a backend of `torch.compile`, whose graphs of ATen operations become ours."""
