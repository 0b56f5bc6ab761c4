import type { ConflictDecl } from '../../kernel/index.js'

/** Conflicts between what was declared and what this machine shows; found by `detect.ts`. */
export const conflicts = {
  gpu_serving_disabled: {
    severity: 'error',
    meaning: 'A serving-capable GPU is visible but a configured engine would run CPU-only.',
    remediation:
      "Set plugins.runners.backends.<engine> to cuda or webgpu in svc.yaml and install that backend's " +
      'libraries, or hide the GPU from this node with CUDA_VISIBLE_DEVICES=-1; then restart.'
  },
  gpu_detection_degraded: {
    severity: 'warn',
    meaning: 'A GPU is present but cannot be fully detected; behaviour that depends on its memory degrades.',
    remediation:
      'Install or load the GPU driver and its tools (for NVIDIA, `nvidia-smi` must work for the user ' +
      'that runs svc), then restart.'
  },
  invalid_engine_binary: {
    severity: 'warn',
    meaning: 'An engine binary override points at something unusable; no managed build replaces it.',
    remediation:
      'Point SVC_<ENGINE>_SERVER_BIN at an absolute path of a regular, executable file that you or root ' +
      'own and that nobody else may write, or unset it; then restart.'
  },
  backend_override_conflict: {
    severity: 'warn',
    meaning:
      'A declared backend claims hardware this node cannot observe; the declaration is still honoured.',
    remediation:
      'Correct plugins.runners.backends in svc.yaml, or make the hardware visible to svc; then restart.'
  }
} as const satisfies Record<string, ConflictDecl>
