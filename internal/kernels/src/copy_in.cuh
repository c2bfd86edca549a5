// Copy-in: any buffer of this rank is copied chunk by chunk into a staging
// buffer that all ranks share, reduced there in place by the owner of each
// slice, and copied out. Over Multicast this is NVLS copy-in; over Peers it is
// the same pipeline on any GPUs.
//
// Each block is a pipeline of its own with three staging slots: in step k it
// copies chunk k in, reduces chunk k-1 and copies chunk k-2 out. One arrival ends
// a step, and is awaited in the next one behind the copying in: it says that chunk k
// is in staging and that this rank's part of the result of chunk k-1 is with all.
// Chunk k+3 overwrites the slot of chunk k in step k+3, when the arrival of step
// k+1 has been awaited, behind which no rank reads or writes that slot but its
// own, and that one has copied it out in step k+2.
#pragma once
#include "two_shot.cuh"

constexpr u32 kStagingSlots = 3;

template <class T, class Op, class Fabric>
struct CopyIn {
  const Args& a;
  u64 packs;  // of the message, the last one perhaps partial

  DEVICE u64 first(u32 k) const { return (blockIndex() + u64(k) * gridSize()) * a.chunk; }
  DEVICE u64 size(u32 k) const {
    u64 left = packs - first(k);
    return left < a.chunk ? left : a.chunk;
  }
  // Offset of chunk k in the staging buffer.
  DEVICE u64 slot(u32 k) const { return (u64(blockIndex()) * kStagingSlots + k % kStagingSlots) * a.chunk * 16; }
  // Packs of chunk k that one access of an aligned buffer can carry.
  DEVICE u64 whole(u32 k, u64 buffer) const {
    if ((buffer & 15) != 0) return 0;
    u64 left = a.count / kPerPack<T> - first(k);  // at most the last pack is partial
    u64 n = size(k);
    return left < n ? left : n;
  }

  // Copies n packs.
  static DEVICE void copy(u64 from, u64 to, u64 n) {
    u32 step = blockSize();
    unrolled<4>(threadIndex(), step, n, [&]<int U>(u64 i) INLINE {
      Pack v[U];
#pragma unroll
      for (int u = 0; u < U; u++) v[u] = loadPack(from + (i + u * step) * 16);
#pragma unroll
      for (int u = 0; u < U; u++) storePack(to + (i + u * step) * 16, v[u]);
    });
  }
  DEVICE void in(u32 k) const {
    u64 n = size(k), w = whole(k, a.in), to = a.scratch + slot(k);
    copy(a.in + first(k) * 16, to, w);
#pragma unroll 1
    for (u64 i = w + threadIndex(); i < n; i += blockSize()) {
      u64 e = (first(k) + i) * kPerPack<T>;
      u64 lo = loadEight<T>(a.in, e, a.count), hi = loadEight<T>(a.in, e + kPerEight<T>, a.count);
      storePack(to + i * 16, Pack{{u32(lo), u32(lo >> 32), u32(hi), u32(hi >> 32)}});
    }
  }
  DEVICE void out(u32 k) const {
    u64 n = size(k), w = whole(k, a.out), from = a.scratch + slot(k);
    copy(from, a.out + first(k) * 16, w);
#pragma unroll 1
    for (u64 i = w + threadIndex(); i < n; i += blockSize()) {
      u64 e = (first(k) + i) * kPerPack<T>;
      Pack v = loadPack(from + i * 16);
      storeEight<T>(a.out, e, a.count, u64(v.w[0]) | u64(v.w[1]) << 32);
      storeEight<T>(a.out, e + kPerEight<T>, a.count, u64(v.w[2]) | u64(v.w[3]) << 32);
    }
  }
  // Reduces this rank's slice of chunk k, in place on every rank.
  DEVICE void reduce(u32 k) const {
    u32 n = size(k), slice = (n + a.ranks - 1) / a.ranks;
    u32 begin = a.rank * slice, end = begin + slice < n ? begin + slice : n;
    reduceAndStore<Fabric>(a, a.peerIn, a.multicastIn, slot(k), begin + threadIndex(), end, blockSize());
  }

  DEVICE bool has(u32 k) const { return first(k) < packs; }

  DEVICE void run() const {
    Barrier barrier(a);
    if (!has(0)) return;  // the same blocks on every rank
    u32 before = 0;       // the arrival of the step before
#pragma unroll 1
    for (u32 k = 0; k < 2 || has(k - 2); k++) {
      if (has(k)) in(k);
      if (k >= 1) {
        if (!barrier.wait(before, kStaged)) return;
        if (has(k - 1)) reduce(k - 1);
        if (k >= 2) out(k - 2);
      }
      if (k == 0 || has(k - 1)) before = barrier.arrive();
    }
    barrier.commit();
  }
};

template <class T, class Op, int N, class Fabric>
DEVICE void copyIn(const Args& a) {
  CopyIn<T, Op, Fabric>{a, (a.count + kPerPack<T> - 1) / kPerPack<T>}.run();
}
