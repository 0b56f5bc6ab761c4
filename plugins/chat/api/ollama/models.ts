/** The models, as Ollama's clients see them. */
import { createHash } from 'node:crypto'
import { listRank, takesTools } from '../../../staging/service.js'
import { present } from '../../../runners/language/json.js'
import { parametersOf } from '../../../runners/language/sampling.js'
import { requestLocal } from './own.js'
import { find, nameIn, type NamedModelCard } from './names.js'
import { instancesOf, isReady } from './load.js'
import { mayUse, type FromSchema, type ModelCard, type RouteRequest } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'
import type { showBody } from './body.js'

/** Expiry to report for models without an idle timeout, which stay loaded. */
const NEVER = '9999-12-31T23:59:59Z'

const TASKS = ['chat', 'completions', 'embeddings']

/** Language models and encoders that the caller may use and that are on disk or need no files. */
export function all (parts: ApiParts, { caller }: Pick<RouteRequest, 'caller'>): ModelCard[] {
  const { runners, models } = parts
  const here = TASKS.flatMap((task) => runners.models(task)).map(({ card }) => card)
  const stored = (models?.cards() ?? [])
    .filter(({ card, origin }) => origin !== 'custom' && card.tasks.some((task) => TASKS.includes(task)))
    .map(({ card }) => card)
  const rank = (card: ModelCard): number => listRank(card, isReady(parts, card.modelId))
  return [...new Map([...stored, ...here].map((card) => [card.modelId, card])).values()]
    .filter(({ modelId }) => mayUse(caller, modelId)).sort((a, b) => rank(a) - rank(b))
}

type Times = (modelId: string) => string

async function timesOf (parts: ApiParts, request: RouteRequest): Promise<Times> {
  interface Entry { id: string, created: number }
  const list = parts.models === undefined
    ? []
    : (await requestLocal<{ data: Entry[] }>(parts, request, { path: '/models' })).data
  const created = new Map(list.map((entry) => [entry.id, entry.created * 1000]))
  return (modelId) => new Date(created.get(modelId) ?? parts.startedMs).toISOString()
}

export async function ollamaTags (parts: ApiParts, request: RouteRequest): Promise<object> {
  const times = await timesOf(parts, request)
  return { models: all(parts, request).map((card) => listed(parts, { name: card.modelId, card }, times)) }
}

export async function ollamaPs (parts: ApiParts, request: RouteRequest): Promise<object> {
  const times = await timesOf(parts, request)
  return {
    models: all(parts, request).filter(({ modelId }) => isReady(parts, modelId)).map((card) => {
      const { modelId, contextLength } = card
      const [instance] = instancesOf(parts, modelId)
      const { modified_at: _, ...entry } = listed(parts, { name: modelId, card }, times)
      return {
        ...entry, expires_at: expiryOf(parts, instance), size_vram: onGpu(card, instance),
        context_length: instance?.contextTokenLimit ?? contextLength
      }
    })
  }
}

type Placed = ReturnType<typeof instancesOf>[number]

/** The time at which the model unloads if no request follows. */
function expiryOf ({ runners, clock }: ApiParts, instance: Placed | undefined): string {
  const seconds = instance?.placement?.ttlSeconds ?? null
  if (seconds === null) return NEVER
  const report = runners.reports().find(({ instanceId }) => instanceId === instance?.instanceId)
  // The idle time of a remote runner is unknown; assume 0, which gives the latest possible expiry.
  const idle = report?.secondsSinceForward ?? 0
  return new Date(clock.now() + Math.max(0, seconds - idle) * 1000).toISOString()
}

function onGpu ({ totalBytes, nLayers }: ModelCard, instance: Placed | undefined): number {
  const shards = Object.values(instance?.shardAssignments.runnerToShard ?? {})
  const layers = shards.flatMap((shard) => Object.values(shard)).flatMap((body) => body.gpuLayers ?? [])
  return nLayers === 0 ? 0 : Math.round(totalBytes * layers.reduce((sum, count) => sum + count, 0) / nLayers)
}

/** Handles POST /ollama/api/show. Throws `no_instance` for an unknown model. */
export async function ollamaShow (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof showBody }>
): Promise<object> {
  const found = find(parts, nameIn(request.body as FromSchema<typeof showBody>))
  return shown(found, listed(parts, found, await timesOf(parts, request)))
}

const detailsOf = ({ engine, family, quantization, parameters }: ModelCard): object => ({
  parent_model: '', format: engine === 'llama-server' ? 'gguf' : 'onnx', family,
  families: [family], parameter_size: parameters === undefined ? '' : shortCount(parameters),
  quantization_level: quantization ?? ''
})

const SCALES = [['B', 1e9], ['M', 1e6], ['K', 1e3]] as const

/** A count with three digits: `135M`, `8.03B`. */
function shortCount (count: number): string {
  const rounded = Number(count.toPrecision(3))
  const [unit, scale] = SCALES.find(([, scale]) => rounded >= scale) ?? ['', 1]
  return `${Number((rounded / scale).toPrecision(3))}${unit}`
}

/** SHA-256 of a model's content, or of its id and revision if the content digest is unknown. */
function contentDigest (
  { models }: Pick<ApiParts, 'models'>, { modelId, revision, files }: ModelCard
): string {
  const known = models?.digest(modelId)
  if (known != null) return known
  const sums = files.map(({ path, sha256 }) => [path, sha256])
  const whole = sums.length > 0 && sums.every(([, sum]) => sum !== undefined)
  return createHash('sha256').update(JSON.stringify(whole ? sums : [modelId, revision])).digest('hex')
}

/** A model as listed by GET /ollama/api/tags and /ps, where names always have a tag. */
function listed (parts: ApiParts, { name, card }: NamedModelCard, times: Times) {
  const tagged = `${name}:latest`
  return {
    name: tagged, model: tagged, modified_at: times(card.modelId), size: card.totalBytes,
    digest: contentDigest(parts, card), details: detailsOf(card)
  }
}

/** The response of POST /ollama/api/show. */
function shown (
  { card }: NamedModelCard, { modified_at, details }: { modified_at: string, details: object }
): object {
  const { family, contextLength, licence, support, hiddenSize, nLayers, heads, kvHeads, parameters } = card
  const task = card.tasks.includes('embeddings') ? 'embedding' : 'completion'
  const named = parametersOf('ollama').map(({ parameter, name }) => [name, card.defaults[parameter]])
  const lines = named.filter(([, value]) => value != null).map((pair) => pair.map(String))
  const modelfile = [`FROM ${card.modelId}`, ...lines.map((line) => ['PARAMETER', ...line].join(' '))]
  return {
    license: licence, modelfile: modelfile.join('\n'), template: '',
    parameters: lines.map(([key = '', value]) => `${key.padEnd(30)} ${value}`).join('\n'),
    modified_at, details,
    model_info: {
      'general.architecture': family, ...present({ 'general.parameter_count': parameters }),
      [`${family}.context_length`]: contextLength,
      [`${family}.embedding_length`]: hiddenSize, [`${family}.block_count`]: nLayers,
      [`${family}.attention.head_count`]: heads, [`${family}.attention.head_count_kv`]: kvHeads
    },
    capabilities: [
      task, ...takesTools(card) ? ['tools'] : [], ...support['images'] === undefined ? [] : ['vision']
    ]
  }
}
