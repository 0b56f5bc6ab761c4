import { cardPath, readModelId } from './api.js'
import { plain, showBytes } from './units.js'
import { whereOf } from './where.js'
import type { ModelCopy } from './api.js'
import type { ModelCard, Verb, VerbContext } from '../../../kernel/index.js'

/** The body of GET /models/{id}/card. */
interface CardAnswer { model_id: string, origin: string, card: ModelCard, copies: ModelCopy[] }

export default {
  async run (ctx, [model]) {
    const answer = await ctx.client.json<CardAnswer>(cardPath(readModelId(ctx, model!)))
    if (ctx.out.json) ctx.out.value(answer)
    else show(ctx, answer)
  }
} satisfies Verb

/** Voices that are named in one line. */
const VOICES = 12

function show ({ out }: VerbContext, { model_id: modelId, origin, card, copies }: CardAnswer): void {
  out.line(plain(`${modelId}  ${card.title}`.trimEnd()))
  if (card.description !== '') out.line(plain(card.description))
  out.line('')
  const facts = factsOf(card, origin, copies)
  const width = Math.max(...facts.map(([name]) => name.length))
  for (const [name, value] of facts) out.line(`${name.padEnd(width)}  ${plain(value)}`)
  out.line('')
  out.table(['FILE', 'ROLE', 'SIZE'],
    card.files.map((file) => [file.path, file.role, showBytes(file.bytes)]))
}

/** What there is to say of a model, without what does not apply to it. */
function factsOf (card: ModelCard, origin: string, copies: readonly ModelCopy[]): [string, string][] {
  const several = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`
  const facts: [string, string | false][] = [
    ['Tasks', card.tasks.join(', ')],
    ['Family', card.family],
    ['Engine', `${card.engine} (${card.backends.join(', ')})`],
    ['Size', `${showBytes(card.totalBytes)} in ${several(card.files.length, 'file')}`],
    ['Quantization', card.quantization ?? ''],
    ['Layers', card.nLayers > 0 && card.hiddenSize > 0 && `${card.nLayers} of ${card.hiddenSize}`],
    ['Context', card.contextLength > 0 && several(card.contextLength, 'token')],
    ['Languages', card.languages.join(', ')],
    ['Voices', voicesOf(card)],
    ['Companions', card.companions.map(({ modelId, role }) => `${modelId} (${role})`).join(', ')],
    ['Defaults', Object.entries(card.defaults).map(([key, value]) => `${key}=${value}`).join(', ')],
    ['Licence', card.licence],
    ['Revision', card.revision],
    ['Card from', origin],
    ['Where', whereOf(copies)]
  ]
  return facts.filter((fact): fact is [string, string] => fact[1] !== '' && fact[1] !== false)
}

function voicesOf ({ voices }: ModelCard): string {
  const more = voices.length - VOICES
  return voices.slice(0, VOICES).map((voice) => voice.id).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
