// How fast SMs move data over the links, with nothing else to do: the limits
// against which an all-reduce is judged. Compiled for sm_80.
#include "link.cuh"

constexpr int kUnroll = 8;

KERNEL __attribute__((launch_bounds(512))) void link_store(LinkArgs a) {
  u64 step = u64(gridSize()) * blockSize();
  u64 i = u64(blockIndex()) * blockSize() + threadIndex();
  Pack v = {{threadIndex(), blockIndex(), 0, 1}};
  for (; i + (kUnroll - 1) * step < a.packs; i += kUnroll * step)
#pragma unroll
    for (int u = 0; u < kUnroll; u++) storePack(a.buffer + (i + u * step) * 16, v);
  for (; i < a.packs; i += step) storePack(a.buffer + i * 16, v);
}

KERNEL __attribute__((launch_bounds(512))) void link_load(LinkArgs a) {
  u64 step = u64(gridSize()) * blockSize();
  u64 i = u64(blockIndex()) * blockSize() + threadIndex();
  u32 all = 0;
  for (; i + (kUnroll - 1) * step < a.packs; i += kUnroll * step) {
    Pack v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = loadPack(a.buffer + (i + u * step) * 16);
#pragma unroll
    for (int u = 0; u < kUnroll; u++) all |= v[u].w[0] | v[u].w[1] | v[u].w[2] | v[u].w[3];
  }
  for (; i < a.packs; i += step) {
    Pack v = loadPack(a.buffer + i * 16);
    all |= v.w[0] | v.w[1] | v.w[2] | v.w[3];
  }
  // Never true of what the host writes before; keeps the loads alive.
  if (all == 0xffffffff) storePack(a.sink, Pack{{all, 0, 0, 0}});
}
