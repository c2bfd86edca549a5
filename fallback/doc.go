// Package fallback holds the all-reduces that need no multicast: ring, and
// peer-to-peer one-shot, two-shot, push, packet and copy-in. They run on any GPUs
// that can reach each other's memory, sm_80 and up.
//
// Rules:
//
//   - Every mode does every data type and operation.
//   - All but copy-in use the group's workspace and no other memory. Ring,
//     one-shot, two-shot and push read or write peers' buffers directly, so those
//     must be in symmetric memory; packet and copy-in take any buffer.
//   - Choices (algorithm by size, launch geometry, division of the message) are
//     pure functions in plan.go.
package fallback
