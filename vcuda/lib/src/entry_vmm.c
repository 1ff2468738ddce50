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

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = DRIVER(cuMemRelease, handle);
    if (result == CUDA_SUCCESS)
        vmm_released(handle);
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    CUresult result = DRIVER(cuMemRetainAllocationHandle, handle, address);
    if (result == CUDA_SUCCESS)
        vmm_retained(*handle);
    return result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result = DRIVER(cuMemMap, ptr, size, offset, handle, flags);
    if (result == CUDA_SUCCESS)
        vmm_mapped(ptr, size, handle);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    CUresult result = DRIVER(cuMemUnmap, ptr, size);
    if (result == CUDA_SUCCESS)
        vmm_unmapped(ptr, size);
    return result;
}
