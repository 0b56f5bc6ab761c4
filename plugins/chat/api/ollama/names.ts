/** Names of models as Ollama's clients write them. */
import { kernelError } from '../../../../kernel/index.js'
import { invalidField } from '../errors.js'
import { resolveName } from '../request-to-task.js'
import type { ModelCard, SvcError } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'
import type { DerivedModel } from '../derived-models.js'

/** The public hub's addresses, which stand before the names of its models. */
const HUB = /^(?:https?:\/\/)?(?:hf\.co|huggingface\.co)\//i
const TAGGED = /^(.+):([^:/]+)$/

type Known = Pick<ApiParts, 'aliases' | 'made' | 'runners'>

/**
 * The name by which a model is known here: `name:latest` is `name`, and so is a tag that says which weights
 * the model has. Any other name is as it was.
 */
export function canonical (parts: Known, given: string): string {
  const name = given.replace(HUB, '')
  if (isKnown(parts, name)) return name
  const [, base, tag = ''] = TAGGED.exec(name) ?? []
  if (base === undefined) return name
  if (tag === 'latest') return base
  const { quantization } = parts.runners.card(resolveName(parts, base).modelId) ?? {}
  return quantization != null && quantization.toLowerCase() === tag.toLowerCase() ? base : name
}

const isKnown = (parts: Known, name: string): boolean => {
  const { modelId, made } = resolveName(parts, name)
  return made !== undefined || modelId !== name || parts.runners.card(name) !== undefined
}

/** A model that has a card, by a client's name for it, and what was made of it. */
export interface NamedModelCard { name: string, card: ModelCard, made: DerivedModel | undefined }

/** Throws `no_instance` in Ollama's words for a model that nobody here knows. */
export function find (parts: Known, given: string): NamedModelCard {
  const name = canonical(parts, given)
  const { modelId, made } = resolveName(parts, name)
  const card = parts.runners.card(modelId)
  if (card !== undefined) return { name, card, made }
  throw notFound(given)
}

export const notFound = (name: string): SvcError =>
  kernelError('no_instance', `model '${name.slice(0, 200)}' not found`, { model: name })

/** The model of a body that has it under one of two names. */
export function nameIn ({ model, name }: { model?: string, name?: string }): string {
  const given = [model, name].find((one) => one !== undefined && one !== '')
  if (given === undefined) throw invalidField('model', 'is required')
  return given
}

/** What is fetched for a name: of the hub, or of what is here already. */
export interface PullSource { modelId: string, variant?: string }

/** Reads `org/name`, with a variant after a colon. Throws for the names of Ollama's own library. */
export function fetched (given: string): PullSource {
  const name = given.replace(HUB, '').replace(/:latest$/, '')
  const [, base = name, variant] = TAGGED.exec(name) ?? []
  if (/^[^/]+\/[^/]+$/.test(base)) return { modelId: base, ...variant === undefined ? {} : { variant } }
  throw invalidField('model', `"${given.slice(0, 200)}" is of Ollama's library, which is not served: write ` +
    'hf.co/ORG/NAME:VARIANT for one of the hub; or `svc pull ollama:NAME` for what Ollama has here')
}
