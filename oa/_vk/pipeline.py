"""Pipelines, their layouts, the pipeline cache and descriptor sets, all for the two addressings of the kernel ABI.

"address": the push constant is the 64-bit device address of the argument block; there are no descriptors.
"descriptor": binding 0 is the argument block as a uniform buffer, bindings 1..n are the bound buffers: storage buffers, or
uniform texel buffers of 1, 2 or 4 words a texel where the kernel says so. There are no push constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oa._vk import constants as c
from oa._vk.api import NULL, created, destroyed, enumerate_all, new, new_array, text
from oa._vk.cdef import ffi
from oa._vk.handle import Handle, create
from oa.errors import ArgumentError, Unsupported, VulkanError

if TYPE_CHECKING:
    from oa._vk.device import VulkanDevice

#: Bytes of push constants by addressing.
PUSH_BYTES = {"address": 8, "descriptor": 0}

_UNIFORM = c.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
_STORAGE = c.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
_TEXEL = c.VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
#: Formats of texels of 1, 2 and 4 words: unsigned integers, so that every bit pattern is read as it is.
_FORMATS = {
    1: c.VK_FORMAT_R32_UINT,
    2: c.VK_FORMAT_R32G32_UINT,
    4: c.VK_FORMAT_R32G32B32A32_UINT,
}


def _types(texels: Sequence[int]) -> list[int]:
    """Descriptor type of each binding."""
    return [_UNIFORM, *(_TEXEL if texel else _STORAGE for texel in texels)]


class Layouts:
    """Set layouts and pipeline layouts of a device, made once for each (addressing, texels)."""

    def __init__(self, device: VulkanDevice) -> None:
        self._device = device
        self._pipeline: dict[tuple[str, tuple[int, ...]], int] = {}
        self._set: dict[tuple[int, ...], int] = {}

    def set_layout(self, texels: tuple[int, ...]) -> int:
        """Layout of a descriptor set with the argument block and one bound buffer for each of `texels`."""
        types = _types(texels)
        found = self._set.get(tuple(types))
        if found is not None:
            return found
        device = self._device
        count = len(types)
        if count > device.profile.limits.storage_buffers:
            raise Unsupported(
                f"a kernel with {count} storage buffers: {device.snapshot.name} allows {device.profile.limits.storage_buffers}"
            )
        bindings = ffi.new("VkDescriptorSetLayoutBinding[]", count)
        for index, (binding, kind) in enumerate(zip(bindings, types, strict=True)):
            binding.binding = index
            binding.descriptorType = kind
            binding.descriptorCount = 1
            binding.stageFlags = c.VK_SHADER_STAGE_COMPUTE_BIT
        info = new("VkDescriptorSetLayoutCreateInfo", bindingCount=count, pBindings=bindings)
        made = create(device, "DescriptorSetLayout", info)
        created("set_layout")
        self._set[tuple(types)] = made
        return made

    def pipeline_layout(self, addressing: str, texels: tuple[int, ...]) -> int:
        """Layout of a pipeline of an addressing; `texels` as in `set_layout`."""
        key = (addressing, tuple(_types(texels)) if addressing == "descriptor" else ())
        found = self._pipeline.get(key)
        if found is not None:
            return found
        device = self._device
        info = new("VkPipelineLayoutCreateInfo")
        push = ffi.new("VkPushConstantRange *", {"stageFlags": c.VK_SHADER_STAGE_COMPUTE_BIT, "offset": 0})
        sets = ffi.new("VkDescriptorSetLayout *")
        if addressing == "descriptor":
            sets[0] = self.set_layout(texels)
            info.setLayoutCount, info.pSetLayouts = 1, sets
        else:
            push.size = PUSH_BYTES[addressing]
            info.pushConstantRangeCount, info.pPushConstantRanges = 1, push
        made = create(device, "PipelineLayout", info)
        created("pipeline_layout")
        self._pipeline[key] = made
        return made

    def close(self) -> None:
        """Destroy every layout; the pipelines are gone already."""
        device = self._device
        for layout in self._pipeline.values():
            device.functions.DestroyPipelineLayout(device.handle, layout, NULL)
        destroyed("pipeline_layout", len(self._pipeline))
        for layout in self._set.values():
            device.functions.DestroyDescriptorSetLayout(device.handle, layout, NULL)
        destroyed("set_layout", len(self._set))
        self._pipeline.clear()
        self._set.clear()


class VulkanPipelineCache(Handle):
    """A pipeline cache; `data` gives the bytes to keep on disk."""

    __slots__ = ()
    kind, what = "pipeline_cache", "PipelineCache"

    def __init__(self, device: VulkanDevice, data: bytes) -> None:
        initial = ffi.from_buffer(data) if data else NULL
        info = new("VkPipelineCacheCreateInfo", initialDataSize=len(data), pInitialData=initial)
        try:
            handle = create(device, self.what, info)
        except VulkanError:
            if not data:
                raise
            # A driver may refuse data that it cannot read: start empty.
            handle = create(device, self.what, new("VkPipelineCacheCreateInfo"))
        super().__init__(device, handle)

    def data(self) -> bytes:
        """The cache's content."""
        device = self._device
        size = ffi.new("size_t *")
        get = device.functions.GetPipelineCacheData
        device.check(get(device.handle, self.handle, size, NULL), "sizing the pipeline cache")
        content = ffi.new("char[]", max(1, size[0]))
        device.check(get(device.handle, self.handle, size, content), "reading the pipeline cache")
        return bytes(ffi.buffer(content, size[0]))


class VulkanPipeline(Handle):
    """A compute pipeline. `layout` is shared by all pipelines whose buffers are bound alike; `texels` has an entry a buffer."""

    __slots__ = ("addressing", "buffers", "layout", "name", "texels")
    kind, what = "pipeline", "Pipeline"

    def __init__(
        self,
        device: VulkanDevice,
        words: bytes,
        buffers: int,
        addressing: str,
        cache: Any,
        subgroup_size: int | None,
        name: str,
        texels: tuple[int, ...] = (),
    ) -> None:
        if addressing not in PUSH_BYTES:
            raise ArgumentError(f"addressing: got {addressing!r}, wanted one of {', '.join(PUSH_BYTES)}")
        if addressing == "address" and "bda" not in device.profile.features:
            raise Unsupported(f"kernel {name!r} takes buffer addresses, which {device.snapshot.name} lacks")
        if not words or len(words) % 4:
            raise ArgumentError(f"kernel {name!r}: {len(words)} bytes are not SPIR-V words")
        self._device = device
        self.name, self.buffers, self.addressing = name, buffers, addressing
        self.texels = texels or (0,) * buffers
        self.layout = device.layouts.pipeline_layout(addressing, self.texels)
        super().__init__(device, self._create(words, cache.handle if cache else 0, subgroup_size))
        if device.validating:
            self._set_name()

    def _create(self, words: bytes, cache: int, subgroup_size: int | None) -> int:
        device, vk = self._device, self._device.functions
        required = NULL if subgroup_size is None else self._required_subgroup(subgroup_size)
        code_words = ffi.new("uint32_t[]", len(words) // 4)
        ffi.memmove(code_words, words, len(words))
        module = create(
            device, "ShaderModule", new("VkShaderModuleCreateInfo", codeSize=len(words), pCode=code_words)
        )
        created("shader_module")
        entry = ffi.new("char[]", b"main")
        stage = new(
            "VkPipelineShaderStageCreateInfo", stage=c.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName=entry
        )
        stage.pNext = required
        if subgroup_size is not None and "full_subgroups" in device.profile.features:
            # Kernels that ask for a size number their invocations by subgroup: none may be partly filled.
            stage.flags = c.VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
        info = new("VkComputePipelineCreateInfo", layout=self.layout, stage=stage[0])
        if "pipeline_statistics" in device.profile.features:
            info.flags = c.VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
        pipeline = ffi.new("VkPipeline *")
        try:
            code = vk.CreateComputePipelines(device.handle, cache, 1, info, NULL, pipeline)
        except BaseException:  # an interrupt
            if pipeline[0]:
                vk.DestroyPipeline(device.handle, pipeline[0], NULL)
            raise
        finally:
            vk.DestroyShaderModule(device.handle, module, NULL)
            destroyed("shader_module")
        device.check(code, f"compiling kernel {self.name!r}")
        return int(pipeline[0])

    def _required_subgroup(self, size: int) -> Any:
        profile = self._device.profile
        low, high = profile.limits.subgroup_min, profile.limits.subgroup_max
        if "subgroup_size_control" not in profile.features or not low <= size <= high:
            raise Unsupported(
                f"kernel {self.name!r} wants subgroups of {size}; {self._device.snapshot.name} has {low} to {high}"
            )
        return new("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo", requiredSubgroupSize=size)

    def _set_name(self) -> None:
        label = ffi.new("char[]", self.name.encode())
        info = new(
            "VkDebugUtilsObjectNameInfoEXT", objectType=c.VK_OBJECT_TYPE_PIPELINE, objectHandle=self.handle
        )
        info.pObjectName = label
        self._device.functions.SetDebugUtilsObjectNameEXT(self._device.handle, info)

    def statistics(self) -> dict[str, int | float | bool]:
        """What the driver's compiler tells about the pipeline (registers, spills, occupancy ...), by the driver's own names.

        The profile has to be planned with `extra=("pipeline_statistics",)`; Unsupported otherwise.
        """
        device, vk = self._device, self._device.functions
        if "pipeline_statistics" not in device.profile.features:
            raise Unsupported(
                "pipeline statistics are not enabled: plan the profile with extra=('pipeline_statistics',)"
            )
        executables = enumerate_all(
            lambda n, a: vk.GetPipelineExecutablePropertiesKHR(
                device.handle, new("VkPipelineInfoKHR", pipeline=self.handle), n, a
            ),
            "VkPipelineExecutablePropertiesKHR",
            "listing pipeline executables",
        )
        found: dict[str, int | float | bool] = {}
        for index in range(len(executables)):
            info = new("VkPipelineExecutableInfoKHR", pipeline=self.handle, executableIndex=index)
            rows = enumerate_all(
                lambda n, a, which=info: vk.GetPipelineExecutableStatisticsKHR(device.handle, which, n, a),  # type: ignore[misc]
                "VkPipelineExecutableStatisticKHR",
                "reading pipeline statistics",
            )
            for row in rows:
                found[text(row.name)] = _statistic(row)
        return found

    def __repr__(self) -> str:
        return f"<pipeline {self.name} {self.addressing} {self.buffers} buffers>"


def _statistic(row: Any) -> int | float | bool:
    if row.format == c.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        return bool(row.value.b32)
    if row.format == c.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
        return float(row.value.f64)
    signed = row.format == c.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR
    return int(row.value.i64 if signed else row.value.u64)


class VulkanDescriptorPool(Handle):
    """Descriptor sets: `allocate` gives one for a pipeline, `write` points it at buffers, `reset` frees all at once."""

    __slots__ = (
        "_buffers",
        "_free",
        "_infos",
        "_made_views",
        "_sets",
        "_texels",
        "_update",
        "_views",
        "_writes",
    )
    kind, what = "descriptor_pool", "DescriptorPool"

    def __init__(self, device: VulkanDevice, sets: int, buffers: int) -> None:
        self._sets = self._free = sets
        self._buffers = buffers
        self._texels: dict[int, tuple[int, ...]] = {}  #: of each set
        self._made_views: dict[int, list[int]] = {}  #: of each set that has any
        kinds = [(_UNIFORM, sets), (_STORAGE, sets * max(1, buffers))]
        if device.profile.texels:
            kinds.append((_TEXEL, sets * max(1, buffers)))
        sizes = ffi.new("VkDescriptorPoolSize[]", [{"type": kind, "descriptorCount": n} for kind, n in kinds])
        info = new("VkDescriptorPoolCreateInfo", maxSets=sets, poolSizeCount=len(kinds), pPoolSizes=sizes)
        super().__init__(device, create(device, self.what, info))
        self._update = device.functions.UpdateDescriptorSets
        self._infos = ffi.new("VkDescriptorBufferInfo[]", buffers + 1)
        self._views = ffi.new("VkBufferView[]", buffers + 1)
        self._writes = new_array("VkWriteDescriptorSet", buffers + 1)
        for index in range(buffers + 1):
            write = self._writes[index]
            write.dstBinding, write.descriptorCount = index, 1
            write.pBufferInfo, write.pTexelBufferView = self._infos + index, self._views + index

    def allocate(self, pipeline: Any) -> int:
        """A descriptor set for a pipeline. Raises VulkanError (VK_ERROR_OUT_OF_POOL_MEMORY) when the pool is used up."""
        if pipeline.buffers > self._buffers:
            raise ArgumentError(f"{pipeline!r} has more buffers than this pool's {self._buffers}")
        if not self._free:
            raise VulkanError(
                f"all {self._sets} descriptor sets of the pool are taken",
                code=c.VK_ERROR_OUT_OF_POOL_MEMORY,
                name="VK_ERROR_OUT_OF_POOL_MEMORY",
            )
        device = self._device
        layout = ffi.new("VkDescriptorSetLayout *", device.layouts.set_layout(pipeline.texels))
        info = new(
            "VkDescriptorSetAllocateInfo",
            descriptorPool=self.handle,
            descriptorSetCount=1,
            pSetLayouts=layout,
        )
        handle = ffi.new("VkDescriptorSet *")
        code = device.functions.AllocateDescriptorSets(device.handle, info, handle)
        device.check(code, "allocating a descriptor set")
        self._free -= 1
        made = int(handle[0])
        self._texels[made] = pipeline.texels
        return made

    def write(self, descriptor_set: int, ranges: Sequence[tuple[Any, int, int]]) -> None:
        """Point bindings 0, 1, ... at (buffer, offset, size) ranges in bytes. No pending submission may use the set."""
        infos, views, writes, texels = self._infos, self._views, self._writes, self._texels[descriptor_set]
        self._drop_views(descriptor_set)
        for index, (buffer, offset, size) in enumerate(ranges):
            write = writes[index]
            write.dstSet = descriptor_set
            texel = texels[index - 1] if index else 0
            if texel:
                write.descriptorType = _TEXEL
                views[index] = self._view(descriptor_set, _FORMATS[texel], buffer, offset, size)
            else:
                write.descriptorType = _STORAGE if index else _UNIFORM
                info = infos[index]
                info.buffer = buffer.handle
                info.offset = offset
                info.range = size
        self._update(self._device.handle, len(ranges), writes, 0, NULL)

    def reset(self) -> None:
        """Free every set of the pool; none may be in use."""
        device = self._device
        device.check(
            device.functions.ResetDescriptorPool(device.handle, self.handle, 0), "resetting a descriptor pool"
        )
        for descriptor_set in self._texels:
            self._drop_views(descriptor_set)
        self._texels.clear()
        self._free = self._sets

    def _view(self, descriptor_set: int, format: int, buffer: Any, offset: int, size: int) -> int:
        """A view of a range as texels, which lives until the set is written again."""
        info = new("VkBufferViewCreateInfo", buffer=buffer.handle, format=format, offset=offset, range=size)
        made = create(self._device, "BufferView", info)
        self._made_views.setdefault(descriptor_set, []).append(made)
        created("buffer_view")
        return made

    def _drop_views(self, descriptor_set: int) -> None:
        """Destroy the views of a set that is written again, or gone."""
        device = self._device
        for view in self._made_views.pop(descriptor_set, ()):
            device.functions.DestroyBufferView(device.handle, view, NULL)
            destroyed("buffer_view")

    def destroy(self) -> None:
        """The Vulkan side of `close`."""
        for descriptor_set in list(self._made_views):
            self._drop_views(descriptor_set)
        super().destroy()
