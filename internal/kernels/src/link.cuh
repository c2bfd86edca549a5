// The argument of the kernels that measure links. Mirrored in args.go.
#pragma once
#include "machine.cuh"

struct LinkArgs {
  u64 buffer;  // at the peer
  u64 packs;
  u64 sink;    // a pack of own memory
};
