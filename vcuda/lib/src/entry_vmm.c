/* Virtual memory management: physical memory made, released, mapped and unmapped. */
#include "vmm.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    struct charge charge;
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    int device = on_device ? device_index(prop->location.id) : DEVICE_UNKNOWN;
    CUresult result = charge_begin_on(&charge, device, VCUDA_CLASS_VMM, size);
    if (result != CUDA_SUCCESS)
        return result;
    return vmm_created(&charge, DRIVER(cuMemCreate, handle, size, prop, flags), handle);
}

/* A call that the books follow when it has succeeded: name, what follows, parameters, arguments. */
#define FOLLOWED(name, by, parameters, ...)              \
    CUresult name parameters {                           \
        CUresult result = DRIVER(name, __VA_ARGS__);     \
        if (result == CUDA_SUCCESS)                      \
            by;                                          \
        return result;                                   \
    }

FOLLOWED(cuMemRelease, vmm_released(handle), (CUmemGenericAllocationHandle handle), handle)
FOLLOWED(cuMemRetainAllocationHandle, vmm_retained(*handle), (CUmemGenericAllocationHandle *handle, void *address), handle, address)
FOLLOWED(cuMemMap, vmm_mapped(ptr, size, handle),
         (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags), ptr, size, offset, handle,
         flags)
FOLLOWED(cuMemUnmap, vmm_unmapped(ptr, size), (CUdeviceptr ptr, size_t size), ptr, size)
