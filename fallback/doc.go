// Package fallback holds the all-reduces that need no multicast: ring, and
// peer-to-peer one-shot, two-shot, push, packet, copy-in and copy engine. They run
// on any GPUs that can reach each other's memory, sm_80 and up.
//
// Rules:
//
//   - Every mode does every data type and operation.
//   - All but copy-in use the group's workspace and no other memory. Ring,
//     one-shot, two-shot, push and copy engine read or write peers' buffers
//     directly, so those must be in symmetric memory; packet and copy-in take any
//     buffer.
//   - A call leaves scratch memory free on every rank when it ends on any: the next
//     one may begin to write to the peers' at once.
//   - Choices (algorithm by size, launch geometry, division of the message) are
//     pure functions in plan.go and copy_plan.go.
package fallback
