// link.cu's stores as bulk copies. Compiled for sm_90.
#include "link.cuh"
#include "push_bulk.cuh"

// Each block goes through its stages again and again: what they hold does not
// matter, only that it is all on its way to the peer.
KERNEL __attribute__((launch_bounds(512))) void link_bulk_store(LinkArgs a) {
  u32 stages = sharedAddress(stageMemory);
  for (u32 i = threadIndex(); i < kBulkShared / 16; i += blockSize())
    storeShared(stages + i * 16, Pack{{i, blockIndex(), 0, 1}});
  fenceAsyncShared();
  syncBlock();
  if (threadIndex() != 0) return;
  u64 bytes = a.packs * 16;
  u32 stage = 0;
  for (u64 at = u64(blockIndex()) * kStageBytes; at < bytes; at += u64(gridSize()) * kStageBytes) {
    bulkWaitRead<2 * kStages - 1>();
    bulkStore(a.buffer + at, stages + stage * kStageBytes, bytes - at < kStageBytes ? u32(bytes - at) : kStageBytes);
    bulkCommit();
    stage = (stage + 1) % (2 * kStages);
  }
  bulkWait<0>();
}
