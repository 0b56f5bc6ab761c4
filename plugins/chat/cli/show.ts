import { modelInPath, nameOf, plain, readModelId, showBytes } from '../../../kernel/cli/index.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import { locationsText } from '../../staging/service.js'
import { instancesOf } from './state-view.js'
import type { InstanceView, StateView } from './state-view.js'

type Copy = Parameters<typeof locationsText>[0][number]

interface CardAnswer { model_id: string, origin: string, card: ModelCard, copies: Copy[] }

/** The body of GET /models/{id}/availability. */
interface Availability { available: boolean, message: string | null, remedy: string | null }

type Known = Awaited<ReturnType<typeof fetchKnown>>

export default {
  async run (ctx, [model]) {
    const known = await fetchKnown(ctx, readModelId(ctx, model!))
    if (ctx.out.json) ctx.out.value(known)
    else show(ctx, known)
  }
} satisfies Verb

/** The model's card, its availability, its instances, and as text its engine's drivers and its policy. */
async function fetchKnown ({ client }: VerbContext, modelId: string) {
  const path = `/models/${modelInPath(modelId)}`
  // Requested first, because it fails for an unknown model.
  const answer = await client.json<CardAnswer>(`${path}/card`)
  const [availability, state] = await Promise.all([
    client.json<Availability>(`${path}/availability`), client.json<StateView>('/state')
  ])
  const drivers = driversOf(state, answer.card.engine)
  const policy = state.policies?.[modelId]?.words ?? null
  return { ...answer, availability, instances: instancesOf(state, modelId), drivers, policy }
}

function driversOf (state: StateView, engine: string): string[] {
  return Object.entries(state.nodeResources).flatMap(([id, { engines }]) => {
    const words = engines?.[engine]?.words
    return words === undefined ? [] : [`${nameOf(state, id)}: ${words}`]
  })
}

/** Maximum number of listed voices; the others are summarized as "and N more". */
const VOICES = 12

function show ({ out }: VerbContext, known: Known): void {
  const { model_id: modelId, card, instances } = known
  out.line(plain(`${modelId}  ${card.title}`.trimEnd()))
  if (card.description !== '') out.line(plain(card.description))
  out.line('')
  const facts = factsOf(known)
  const width = Math.max(...facts.map(([name]) => name.length))
  for (const [name, value] of facts) out.line(`${name.padEnd(width)}  ${plain(value)}`)
  if (instances.length > 0) {
    out.line('')
    out.table(['INSTANCE', 'NODES', 'STATE', 'CONTEXT', 'SLOTS'], instances.map(rowOf))
  }
  const support = Object.entries(card.support)
  if (support.length > 0) {
    out.line('')
    out.table(['FIELD', 'SUPPORT'], support.map(([field, what]) => [field, plain(String(what))]))
  }
  out.line('')
  out.table(['FILE', 'ROLE', 'SIZE'], card.files.map((file) => [file.path, file.role, showBytes(file.bytes)]))
}

function rowOf ({ instanceId, nodes, state, error, contextTokenLimit, slots }: InstanceView): string[] {
  const steps = [...new Set(nodes.map((node) => node.state).filter((words) => words !== 'ready'))].join(', ')
  const words = error !== null ? `${state}: ${error}` : state === 'starting' ? steps : state
  return [
    instanceId, nodes.map(({ name }) => name).join(',') || '-', plain(words),
    contextTokenLimit === null || contextTokenLimit <= 0 ? '-' : String(contextTokenLimit),
    slots === null ? '-' : String(slots)
  ]
}

/** Rows of the table, without those that do not apply to the model. */
function factsOf ({ card, origin, copies, availability, drivers, policy }: Known): [string, string][] {
  const several = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`
  const facts: [string, string | false][] = [
    ['Tasks', card.tasks.join(', ')],
    ['Family', card.family],
    ['Engine', `${card.engine} (${card.backends.join(', ')})`],
    ['Runs on', drivers.join('; ')],
    ['Size', `${showBytes(card.totalBytes)} in ${several(card.files.length, 'file')}`],
    ['Quantization', card.quantization ?? ''],
    ['Layers', card.nLayers > 0 && String(card.nLayers)],
    ['Hidden size', card.hiddenSize > 0 && String(card.hiddenSize)],
    ['Context', card.contextLength > 0 && several(card.contextLength, 'token')],
    ['Languages', card.languages.join(', ')],
    ['Voices', voicesOf(card)],
    ['Companions', card.companions.map(({ modelId, role }) => `${modelId} (${role})`).join(', ')],
    ['Defaults', Object.entries(card.defaults).map(([key, value]) => `${key}=${value}`).join(', ')],
    ['Licence', card.licence],
    ['Revision', card.revision],
    ['Card from', origin],
    ['Where', locationsText(copies)],
    ['Policy', policy ?? ''],
    ['Answers', answersOf(availability)]
  ]
  return facts.filter((fact): fact is [string, string] => fact[1] !== '' && fact[1] !== false)
}

function answersOf ({ available, message, remedy }: Availability): string {
  if (available) return 'yes'
  return ['no', message, remedy].filter((words) => words !== null && words !== '').join('; ')
}

function voicesOf ({ voices }: ModelCard): string {
  const more = voices.length - VOICES
  return voices.slice(0, VOICES).map((voice) => voice.id).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
