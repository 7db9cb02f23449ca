"""The table from `oa`'s capability names to where Vulkan says whether a device has them.

`_vk` reads it twice: to record a snapshot, and to enable exactly the capabilities of a profile at device creation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capability:
    """One capability that must be enabled at device creation.

    `core` is the Vulkan version that made the structure core, `extension` what offers it before (or, with `core=None`, at all).
    """

    name: str
    structure: str
    member: str
    core: tuple[int, int] | None = None
    extension: str | None = None


@dataclass(frozen=True)
class Property:
    """One capability that needs no enabling: a boolean member of a properties structure."""

    name: str
    member: str


_BASE = "VkPhysicalDeviceFeatures2"
_STORAGE16 = "VkPhysicalDevice16BitStorageFeatures"
_STORAGE8 = "VkPhysicalDevice8BitStorageFeatures"
_FLOAT16_INT8 = "VkPhysicalDeviceShaderFloat16Int8Features"
_ATOMIC64 = "VkPhysicalDeviceShaderAtomicInt64Features"
_MODEL = "VkPhysicalDeviceVulkanMemoryModelFeatures"
_SUBGROUP_SIZE = "VkPhysicalDeviceSubgroupSizeControlFeatures"
_COOPMAT = "VkPhysicalDeviceCooperativeMatrixFeaturesKHR"
_COOPMAT2 = "VkPhysicalDeviceCooperativeMatrix2FeaturesNV"
_BFLOAT16 = "VkPhysicalDeviceShaderBfloat16FeaturesKHR"
_ATOMIC_FLOAT = "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT"
_EXECUTABLE = "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR"

#: Capabilities that are switched on at device creation.
CAPABILITIES: tuple[Capability, ...] = (
    Capability("float64", _BASE, "shaderFloat64", (1, 0)),
    Capability("int64", _BASE, "shaderInt64", (1, 0)),
    Capability("int16", _BASE, "shaderInt16", (1, 0)),
    Capability("storage16", _STORAGE16, "storageBuffer16BitAccess", (1, 1)),
    Capability("storage8", _STORAGE8, "storageBuffer8BitAccess", (1, 2), "VK_KHR_8bit_storage"),
    Capability("float16", _FLOAT16_INT8, "shaderFloat16", (1, 2), "VK_KHR_shader_float16_int8"),
    Capability("int8", _FLOAT16_INT8, "shaderInt8", (1, 2), "VK_KHR_shader_float16_int8"),
    Capability("bda", "VkPhysicalDeviceBufferDeviceAddressFeatures", "bufferDeviceAddress", (1, 2),
               "VK_KHR_buffer_device_address"),
    Capability("timeline", "VkPhysicalDeviceTimelineSemaphoreFeatures", "timelineSemaphore", (1, 2),
               "VK_KHR_timeline_semaphore"),
    Capability("host_query_reset", "VkPhysicalDeviceHostQueryResetFeatures", "hostQueryReset", (1, 2),
               "VK_EXT_host_query_reset"),
    Capability("scalar_layout", "VkPhysicalDeviceScalarBlockLayoutFeatures", "scalarBlockLayout", (1, 2),
               "VK_EXT_scalar_block_layout"),
    Capability("subgroup_extended_types", "VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures",
               "shaderSubgroupExtendedTypes", (1, 2), "VK_KHR_shader_subgroup_extended_types"),
    Capability("atomic_int64", _ATOMIC64, "shaderBufferInt64Atomics", (1, 2), "VK_KHR_shader_atomic_int64"),
    Capability("memory_model", _MODEL, "vulkanMemoryModel", (1, 2), "VK_KHR_vulkan_memory_model"),
    Capability("memory_model_device_scope", _MODEL, "vulkanMemoryModelDeviceScope", (1, 2),
               "VK_KHR_vulkan_memory_model"),
    Capability("sync2", "VkPhysicalDeviceSynchronization2Features", "synchronization2", (1, 3),
               "VK_KHR_synchronization2"),
    Capability("subgroup_size_control", _SUBGROUP_SIZE, "subgroupSizeControl", (1, 3), "VK_EXT_subgroup_size_control"),
    Capability("full_subgroups", _SUBGROUP_SIZE, "computeFullSubgroups", (1, 3), "VK_EXT_subgroup_size_control"),
    Capability("int_dot", "VkPhysicalDeviceShaderIntegerDotProductFeatures", "shaderIntegerDotProduct", (1, 3),
               "VK_KHR_shader_integer_dot_product"),
    Capability("coopmat", _COOPMAT, "cooperativeMatrix", None, "VK_KHR_cooperative_matrix"),
    Capability("coopmat2", _COOPMAT2, "cooperativeMatrixWorkgroupScope", None, "VK_NV_cooperative_matrix2"),
    Capability("coopmat2_flexible", _COOPMAT2, "cooperativeMatrixFlexibleDimensions", None, "VK_NV_cooperative_matrix2"),
    Capability("coopmat2_reductions", _COOPMAT2, "cooperativeMatrixReductions", None, "VK_NV_cooperative_matrix2"),
    Capability("coopmat2_conversions", _COOPMAT2, "cooperativeMatrixConversions", None, "VK_NV_cooperative_matrix2"),
    Capability("coopmat2_per_element", _COOPMAT2, "cooperativeMatrixPerElementOperations", None,
               "VK_NV_cooperative_matrix2"),
    Capability("coopmat2_tensor", _COOPMAT2, "cooperativeMatrixTensorAddressing", None, "VK_NV_cooperative_matrix2"),
    Capability("coopmat2_block_loads", _COOPMAT2, "cooperativeMatrixBlockLoads", None, "VK_NV_cooperative_matrix2"),
    Capability("bfloat16", _BFLOAT16, "shaderBFloat16Type", None, "VK_KHR_shader_bfloat16"),
    Capability("bfloat16_dot", _BFLOAT16, "shaderBFloat16DotProduct", None, "VK_KHR_shader_bfloat16"),
    Capability("bfloat16_coopmat", _BFLOAT16, "shaderBFloat16CooperativeMatrix", None, "VK_KHR_shader_bfloat16"),
    Capability("atomic_float", _ATOMIC_FLOAT, "shaderBufferFloat32AtomicAdd", None, "VK_EXT_shader_atomic_float"),
    Capability("atomic_float64", _ATOMIC_FLOAT, "shaderBufferFloat64AtomicAdd", None, "VK_EXT_shader_atomic_float"),
    Capability("shared_atomic_float", _ATOMIC_FLOAT, "shaderSharedFloat32AtomicAdd", None, "VK_EXT_shader_atomic_float"),
    Capability("pipeline_statistics", _EXECUTABLE, "pipelineExecutableInfo", None,
               "VK_KHR_pipeline_executable_properties"),
)  # fmt: skip

#: Capabilities that an extension brings without a feature structure.
EXTENSION_CAPABILITIES: dict[str, str] = {
    "memory_budget": "VK_EXT_memory_budget",
    "tensor_addressing": "VK_NV_tensor_addressing",
    "external_memory_fd": "VK_KHR_external_memory_fd",
    "external_semaphore_fd": "VK_KHR_external_semaphore_fd",
    "external_memory_host": "VK_EXT_external_memory_host",
}

#: Capabilities read from VkPhysicalDeviceFloatControlsProperties; a module asks for them by execution mode.
FLOAT_CONTROLS: tuple[Property, ...] = (
    Property("denorm_preserve16", "shaderDenormPreserveFloat16"),
    Property("denorm_preserve32", "shaderDenormPreserveFloat32"),
    Property("denorm_preserve64", "shaderDenormPreserveFloat64"),
    Property("denorm_flush16", "shaderDenormFlushToZeroFloat16"),
    Property("denorm_flush32", "shaderDenormFlushToZeroFloat32"),
    Property("denorm_flush64", "shaderDenormFlushToZeroFloat64"),
    Property("rounding_rte16", "shaderRoundingModeRTEFloat16"),
    Property("rounding_rte32", "shaderRoundingModeRTEFloat32"),
    Property("rounding_rte64", "shaderRoundingModeRTEFloat64"),
    Property("inf_nan_preserve16", "shaderSignedZeroInfNanPreserveFloat16"),
    Property("inf_nan_preserve32", "shaderSignedZeroInfNanPreserveFloat32"),
    Property("inf_nan_preserve64", "shaderSignedZeroInfNanPreserveFloat64"),
)

#: Subgroup operation classes of compute shaders; the capability is named "subgroup_" and the class.
SUBGROUP_OPERATIONS = (
    "basic",
    "vote",
    "arithmetic",
    "ballot",
    "shuffle",
    "shuffle_relative",
    "clustered",
    "quad",
)

#: Capabilities that need no enabling.
PASSIVE = frozenset(
    [*(p.name for p in FLOAT_CONTROLS), *(f"subgroup_{name}" for name in SUBGROUP_OPERATIONS)]
)

BY_NAME: dict[str, Capability] = {capability.name: capability for capability in CAPABILITIES}


def structures(api: tuple[int, int], extensions: frozenset[str]) -> tuple[str, ...]:
    """Feature structures that a device of version `api` with these extensions understands, the base structure first."""
    found: dict[str, None] = {_BASE: None}
    for capability in CAPABILITIES:
        in_core = capability.core is not None and api >= capability.core
        if in_core or capability.extension in extensions:
            found[capability.structure] = None
    return tuple(found)


def extension_of(name: str, api: tuple[int, int]) -> str | None:
    """The extension that has to be enabled for a capability at version `api`, or None when it is core or needs none."""
    if name in EXTENSION_CAPABILITIES:
        return EXTENSION_CAPABILITIES[name]
    capability = BY_NAME.get(name)
    if capability is None or (capability.core is not None and api >= capability.core):
        return None
    return capability.extension
