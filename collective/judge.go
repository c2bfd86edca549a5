package collective

import "github.com/nvls-allreduce/nvls-allreduce/internal/device"

// ChooseDevices says which device each rank of a node takes, or why the ranks
// cannot form a group. visible[r] is what rank r sees, in ordinal order. Open
// decides in the same way; this asks without opening anything.
func ChooseDevices(visible [][]DeviceInfo, share bool) ([]DeviceInfo, error) {
	chosen := make([]device.Info, len(visible))
	uuids := make([][]device.UUID, len(visible))
	for r, v := range visible {
		ordinal, err := chooseDevice(r, len(visible), v, share)
		if err != nil {
			return nil, err
		}
		chosen[r] = v[ordinal]
		for _, d := range v {
			uuids[r] = append(uuids[r], d.UUID)
		}
	}
	return chosen, checkDevices(chosen, uuids, share)
}
