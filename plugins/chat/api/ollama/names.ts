/** Model names as Ollama's clients write them. */
import { badField, kernelError, type ModelCard, type SvcError } from '../../../../kernel/index.js'
import { modelOf } from '../request-to-task.js'
import type { ApiParts } from '../types.js'

/** URL prefixes of Hugging Face, which clients put before `org/name`. */
const HUB = /^(?:https?:\/\/)?(?:hf\.co|huggingface\.co)\//i
const TAGGED = /^(.+):([^:/]+)$/

type Known = Pick<ApiParts, 'aliases' | 'runners'>

/** A model's name minus the hub's prefix and minus a tag that is `latest` or equals the quantization. */
export function canonical (parts: Known, given: string): string {
  const name = given.replace(HUB, '')
  if (isKnown(parts, name)) return name
  const [, base, tag = ''] = TAGGED.exec(name) ?? []
  if (base === undefined) return name
  if (tag === 'latest') return base
  const { quantization } = parts.runners.card(modelOf(parts, base)) ?? {}
  return quantization != null && quantization.toLowerCase() === tag.toLowerCase() ? base : name
}

const isKnown = (parts: Known, name: string): boolean =>
  modelOf(parts, name) !== name || parts.runners.card(name) !== undefined

export interface NamedModelCard { name: string, card: ModelCard }

/** Finds a model by name. Throws `no_instance` with Ollama's message for an unknown model. */
export function find (parts: Known, given: string): NamedModelCard {
  const name = canonical(parts, given)
  const card = parts.runners.card(modelOf(parts, name))
  if (card !== undefined) return { name, card }
  throw notFound(given)
}

export const notFound = (name: string): SvcError =>
  kernelError('no_instance', `model '${name.slice(0, 200)}' not found`, { model: name })

/** The model name in a request body, under either field name. */
export function nameIn ({ model, name }: { model?: string, name?: string }): string {
  const given = [model, name].find((one) => one !== undefined && one !== '')
  if (given === undefined) throw badField('model', 'is required')
  return given
}

export interface PullSource { modelId: string, variant?: string }

/**
 * Parses `org/name`, with an optional `:variant`. Throws `invalid_request` for names in Ollama's own library.
 */
export function parsePullSource (given: string): PullSource {
  const name = given.replace(HUB, '').replace(/:latest$/, '')
  const [, base = name, variant] = TAGGED.exec(name) ?? []
  if (/^[^/]+\/[^/]+$/.test(base)) return { modelId: base, ...variant === undefined ? {} : { variant } }
  throw badField('model', `"${given.slice(0, 200)}" is in Ollama's library, which is not served: write ` +
    'hf.co/ORG/NAME:VARIANT for a model of the hub, or name Ollama as a server in plugins.upstreams')
}
