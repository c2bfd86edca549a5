// Packet: one-shot for small messages without any barrier. Every rank pushes
// its message into every peer's inbox, each 8 bytes with a flag beside them,
// and reduces what arrives in its own.
//
// A block has an inbox of its own and counts its calls, so a launch may have any
// number of blocks. Inboxes are double-buffered by the parity of the count. A
// block that ends call e has every peer's packets of call e, so every peer had
// ended all of call e-1: the inbox half of e-1 is free when packets of e+1 come.
#pragma once
#include "fabric.cuh"

// Eight bytes of a message: one access where alignment and count allow it.
template <class T>
DEVICE u64 loadUnit(u64 base, u64 unit, u64 count) {
  if ((base & 7) == 0 && (unit + 1) * kPerEight<T> <= count) return *(const volatile u64*)(base + unit * 8);
  return loadEight<T>(base, unit * kPerEight<T>, count);
}
template <class T>
DEVICE void storeUnit(u64 base, u64 unit, u64 count, u64 v) {
  if ((base & 7) == 0 && (unit + 1) * kPerEight<T> <= count) *(volatile u64*)(base + unit * 8) = v;
  else storeEight<T>(base, unit * kPerEight<T>, count, v);
}
template <class T>
DEVICE typename T::Acc unitElement(u64 v, u32 i) {
  return T::decode(typename T::Storage(v >> (i * (64 / kPerEight<T>)&63)));
}

// Waits for a packet that was not there; false after the deadline.
DEVICE bool receivePacket(const Args& a, u64 at, u32 flag, u32 peer, Packet* p) {
  u64 deadline = nanoseconds() + a.timeout;
  do {
    *p = loadPacket(at);
    if (p->has(flag)) return true;
  } while (nanoseconds() < deadline);
  report(a, kPacket, peer, flag, p->flag());
  return false;
}

template <class T, class Op, int N>
DEVICE void packetOneShot(const Args& a) {
  u64 units = (a.count + kPerEight<T> - 1) / kPerEight<T>;
  u64 first = blockIndex() * a.chunk;
  u64 end = first + a.chunk < units ? first + a.chunk : units;
  u64 begin = first + threadIndex();
  // The first unit, of most messages the only one of a thread, is on its way
  // together with the count of calls, and is kept until the peers' have come.
  u64 early = begin < end ? loadUnit<T>(a.in, begin, a.count) : 0;

  u32 flag = a.self->packetEpoch[blockIndex()] + 1;
  if (flag == 0) flag = 2;  // 0 is what fresh memory holds, and 1 would be in the half of the call before
  syncBlock();              // all threads have read the count
  if (threadIndex() == 0) a.self->packetEpoch[blockIndex()] = flag;

  // A block's inbox: two halves, each a row of slots for every other rank.
  u64 row = u64(a.slots) * 16;
  u64 half = (u64(blockIndex()) * 2 + (flag & 1)) * (a.ranks - 1) * row;

  // Push everything before waiting for anything.
  u64 sendRow = half - first * 16;
#pragma unroll 1
  for (u64 i = begin; i < end; i += blockSize()) {
    u64 mine = i == begin ? early : loadUnit<T>(a.in, i, a.count);
#pragma unroll
    for (int q = 0; q < N; q++) {
      if (!present<N>(a, q) || q == a.rank) continue;
      u32 at = a.rank < q ? a.rank : a.rank - 1;  // rows leave out the receiver
      storePacket(a.peerOut[q] + sendRow + at * row + i * 16, mine, flag);
    }
  }
#pragma unroll 1
  for (u64 i = begin; i < end; i += blockSize()) {
    u64 mine = i == begin ? early : loadUnit<T>(a.in, i, a.count);
    // Look at the packets of all peers at once, a row each in the order of ranks, and
    // then wait for those that are not there one by one.
    u64 arrivals = a.scratch + sendRow + i * 16;
    Packet packets[N - 1];
#pragma unroll
    for (u32 r = 0; r < N - 1; r++) packets[r] = loadPacket(arrivals + (N == 2 || r + 1 < a.ranks ? r : 0) * row);
    typename T::Acc acc[kPerEight<T>];
#pragma unroll
    for (int q = 0; q < N; q++) {
      if (!present<N>(a, q)) break;
      u64 v = mine;
      if (q != a.rank) {
        u32 r = q < a.rank ? q : q - 1;  // rows leave out the receiver
        Packet p = q < a.rank ? packets[q < N - 1 ? q : 0] : packets[q > 0 ? q - 1 : 0];
        if (!p.has(flag) && !receivePacket(a, arrivals + r * row, flag, q, &p)) return;
        v = p.data();
      }
#pragma unroll
      for (u32 k = 0; k < kPerEight<T>; k++)
        acc[k] = q == 0 ? unitElement<T>(v, k) : Op::apply(acc[k], unitElement<T>(v, k));
    }
    u64 result = 0;
#pragma unroll
    for (u32 k = 0; k < kPerEight<T>; k++)
      result |= u64(T::encode(average(acc[k], a.average))) << (k * (64 / kPerEight<T>)&63);
    storeUnit<T>(a.out, i, a.count, result);
  }
}
