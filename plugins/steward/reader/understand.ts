import { Names, requestsIn, type Named, type NamedNode, type World } from './entities.js'
import { intentOf, topicOf, type Intent } from './intents.js'
import { whenOf, type When } from './when.js'
import { countedText, wordsOf } from './words.js'
import { joined, type Read, type Understood } from './thread.js'
import type { Turn } from '../types.js'

/**
 * Limits on what is read: characters of a question, number of earlier questions, characters of each. The rest
 * is ignored.
 */
const READ_MOST = 4000
const TURNS_MOST = 6
const TURN_MOST = 1000
/** Questions with more characters are split into sentences, which are understood separately. */
const LONG = 160
/** Number of sentences to read at the beginning and at the end of a long question. */
const SENTENCES_MOST = 20

/** The intent and subject of a question in its conversation. Pure. */
export function understand (text: string, thread: readonly Turn[], world: World): Understood {
  const names = new Names(world)
  const readOne = (one: string): Read => readText(one, world, names)
  let before: Understood | null = null
  const asked = thread.filter(({ role }) => role === 'user').slice(-TURNS_MOST)
  for (const turn of asked) before = joined(readOne(turn.text.slice(0, TURN_MOST)), before, null)
  const said = thread.findLast(({ role }) => role === 'assistant')?.text.split('\n')[0] ?? null
  return joined(readOne(text), before, said === null ? null : readOne(said))
}

function readText (asked: string, world: World, names: Names): Read {
  const text = asked.slice(0, READ_MOST).replace(/\p{Cc}+/gu, ' ')
  const sentences = text.length <= LONG ? [text] : text.match(/(?:[^.!?]|[.!?](?=\S))+[.!?]*/g) ?? [text]
  const [begin, rest] = [sentences.slice(0, SENTENCES_MOST), sentences.slice(SENTENCES_MOST)]
  const read = [...begin, ...rest.slice(-SENTENCES_MOST)].map((one) => readSentence(one, world, names))
  // Prefer a question among the sentences; among several, the most specific one.
  const best = read.reduce((a, b) => telling(b) > telling(a) ? b : a)
  return {
    ...best, model: best.model ?? first(read, 'model'), node: best.node ?? first(read, 'node'),
    id: best.id ?? first(read, 'id'), when: best.when ?? first(read, 'when'),
    text: text.length <= LONG ? text : best.text
  }
}

const first = <K extends keyof Read>(read: readonly Read[], key: K): Read[K] | null =>
  read.find((one) => one[key] !== null)?.[key] ?? null

const telling = ({ weight, text, intent }: Read): number =>
  (intent === 'hello' ? weight / 4 : weight) + (/\?\s*$/.test(text) ? 1.5 : 0)

function readSentence (sentence: string, world: World, names: Names): Read {
  const words = wordsOf(sentence)
  const taken = new Set<number>()
  const take = <T extends { at: readonly number[] }>(named: readonly T[]): T[] => {
    const free = named.filter(({ at }) => !at.some((i) => taken.has(i)))
    for (const { at } of free) for (const i of at) taken.add(i)
    return free
  }
  const models = take(names.modelsIn(words))
  const nodes = take(names.nodesIn(words))
  const ids = take(requestsIn(words, taken))
  const mark = (named: readonly { at: readonly number[] }[], by: string): [number, string][] =>
    named.flatMap(({ at }) => at.map((i): [number, string] => [i, i === at[0] ? by : '']))
  const marks = new Map([...mark(models, ' MODEL '), ...mark(nodes, ' NODE '), ...mark(ids, ' ID ')])
  const masked = words.reduceRight((rest, { start, end }, i) =>
    marks.has(i) ? `${rest.slice(0, start)}${marks.get(i)!}${rest.slice(end)}` : rest, lower(sentence))
  const when = whenOf(masked, world)
  const plain = countedText(timed(masked, when))
  const { intent, weight, sure } = intentOf(plain)
  const model = models[0] ?? onlyModel(plain, world)
  const topic = topicOf(masked)
  return {
    intent,
    model: model?.value ?? null,
    node: nodes[0]?.value ?? pointedAt(intent, plain, world),
    id: ids[0]?.value ?? null,
    when,
    asks: /\b(since|for how)\b.*\bwhen\b|\bhow long\b|\bwhen (did|was|has|is)\b|^when$/.test(plain) ? 'when'
      : /\bmend\b/.test(plain) ? 'remedy' : 'cause',
    setting: /\b[a-z][a-z_]*(?:\.[a-z][a-z_]*)+\b/.exec(masked.replace('svc.yaml', ''))?.[0] ?? null,
    level: /\b(?:fail|wrong)\b/.test(plain) ? 'error' : null,
    complains: /\b(?:why|not|down|fail|wrong|slow|stuck|nothing|empty)\b/.test(plain),
    topic,
    off: topic !== null && !world.plugins.includes(topic),
    error: /\b[a-z]+(?:_[a-z]+)+\b/.exec(masked)?.[0] ?? null,
    sure: sure && model?.sure !== false, read: readsOf(model), text: sentence.trim(), counted: plain, weight
  }
}

/** Converts to lower case, so that only placeholders such as MODEL have capitals. */
const lower = (text: string): string => [...text].map((char) => {
  const low = char.toLowerCase()
  return low.length === char.length ? low : char
}).join('')

/** Replaces the words that name a time with a placeholder. */
function timed (text: string, when: When | null): string {
  if (when === null) return text
  const rest = when.said.reduce((known, said) => known.replace(said, ' TIME '), text)
  return rest === text ? `${text} TIME` : rest
}

/** The node that "if the master dies" or "if this node dies" means in a what-if question. */
function pointedAt (intent: Intent, plain: string, { master, local, nodes }: World): NamedNode | null {
  if (intent !== 'what-if') return null
  const meant = /\bmaster\b/.test(plain) ? master : /\bthis node\b/.test(plain) ? local : null
  return nodes.find(({ nodeId }) => nodeId === meant) ?? null
}

/** The only model, if the question says "the model" and there is just one; otherwise null. */
function onlyModel (plain: string, { models }: World): Omit<Named<string>, 'at'> | null {
  if (!/\b(?:the|my|our) model\b/.test(plain)) return null
  return models.length === 1 ? { value: models[0]!, sure: true, others: [] } : null
}

function readsOf (model: Omit<Named<string>, 'at'> | null): string[] {
  if (model === null || model.others.length === 0) return []
  const others = model.others.slice(0, 3).join(', ')
  return [`The name was read as ${model.value}; it could also be ${others}.`]
}
