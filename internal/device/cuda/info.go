package cuda

// #include "shim.h"
import "C"

import (
	"strings"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// devices reads what libcuda knows about every visible device. No context is
// made and no multicast entry point is touched: whether a device has multicast
// is an attribute.
func (l *library) devices() ([]device.Info, error) {
	var n C.int
	if err := l.check("cuDeviceGetCount", C.cuda_device_count(l.api, &n), device.UUID{}); err != nil {
		return nil, err
	}
	infos := make([]device.Info, n)
	for i := range infos {
		var err error
		if infos[i], err = l.info(i); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

func (l *library) info(ordinal int) (device.Info, error) {
	info := device.Info{Ordinal: ordinal, MulticastOff: l.multicastOff}
	dev, err := l.deviceHandle(ordinal)
	if err != nil {
		return info, err
	}
	if err := l.check("cuDeviceGetUuid", C.cuda_device_uuid(l.api, dev, (*C.uchar)(unsafe.Pointer(&info.UUID[0]))), info.UUID); err != nil {
		return info, err
	}
	var name [256]C.char
	if err := l.check("cuDeviceGetName", C.cuda_device_name(l.api, dev, &name[0], C.int(len(name))), info.UUID); err != nil {
		return info, err
	}
	info.Name = C.GoString(&name[0])
	var pci [32]C.char
	if err := l.check("cuDeviceGetPCIBusId", C.cuda_device_pci(l.api, dev, &pci[0], C.int(len(pci))), info.UUID); err != nil {
		return info, err
	}
	info.PCI = trimPCI(C.GoString(&pci[0]))
	var bytes C.size_t
	if err := l.check("cuDeviceTotalMem", C.cuda_device_memory(l.api, dev, &bytes), info.UUID); err != nil {
		return info, err
	}
	info.MemoryBytes = uint64(bytes)

	attribute := func(a C.int) int {
		if err != nil {
			return 0
		}
		var v C.int
		code := C.cuda_device_attribute(l.api, dev, a, &v)
		if code == C.int(device.InvalidValue) {
			return 0 // the driver is older than the attribute
		}
		err = l.check("cuDeviceGetAttribute", code, info.UUID)
		return int(v)
	}
	info.Major = attribute(C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
	info.Minor = attribute(C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
	info.SMs = attribute(C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
	info.L2Bytes = uint64(attribute(C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE))
	info.VMM = attribute(C.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0
	info.PosixFD = attribute(C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0
	info.Fabric = attribute(C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) != 0
	info.CooperativeLaunch = attribute(C.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0
	info.MaxThreadsPerBlock = attribute(C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
	info.MaxBlocksPerSM = attribute(C.CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)
	if l.multicastOff == "" {
		info.Multicast = attribute(C.CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) != 0
	}
	return info, err
}

// deviceHandle gives the CUdevice of an ordinal.
func (l *library) deviceHandle(ordinal int) (C.int, error) {
	var dev C.int
	return dev, l.check("cuDeviceGet", C.cuda_device_get(l.api, C.int(ordinal), &dev), device.UUID{})
}

// trimPCI makes "0000:1b:00" of "0000:1B:00.0": a GPU is always function 0.
func trimPCI(id string) string {
	id = strings.ToLower(id)
	if i := strings.LastIndexByte(id, '.'); i >= 0 {
		id = id[:i]
	}
	return id
}
