import type { ModelCard } from '../../kernel/index.js'

/** Why engine `onnx-lm` refuses a card; null for a model that only makes embeddings. */
export const refusesCard = ({ modelId, family, tasks }: ModelCard): string | null =>
  tasks.every((task) => task === 'embeddings') ? null : needsGguf(modelId, family)

/** The error message for a language model in ONNX, with commands that find and download it as GGUF. */
export function needsGguf (modelId: string, family: string): string {
  const [name = ''] = modelId.slice(modelId.lastIndexOf('/') + 1).split(/[-_.]onnx\b/i, 1)
  return `${modelId} is a language model (${family}) in ONNX, and language models run in GGUF only: ` +
    `\`svc search ${name} gguf\` finds it as GGUF, \`svc pull ORG/${name}-GGUF\` downloads it`
}
