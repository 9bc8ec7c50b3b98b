"""From dpnp code to kernels: recording, partition into regions, and the functions of the tensor language."""
