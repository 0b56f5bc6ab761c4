import type { ModelCard } from '../../../kernel/index.js'

/** GPU backends that run every model whose card lists cuda. */
const LIKE_CUDA: readonly string[] = ['rocm', 'vulkan', 'metal']

export const runsOn = ({ backends }: Pick<ModelCard, 'backends'>, backend: string): boolean =>
  backends.includes(backend) || (LIKE_CUDA.includes(backend) && backends.includes('cuda'))
