import type { NamedNode } from './entities.js'
import type { Intent } from './intents.js'
import type { When } from './when.js'

/** The intent and the subject of a question. */
export interface Understood {
  readonly intent: Intent
  /** The cluster's spelling; the question's if no model has that name. */
  readonly model: string | null
  readonly node: NamedNode | null
  /** Id of a request. */
  readonly id: string | null
  readonly when: When | null
  /** The requested aspect: the cause, the time, or the remedy. */
  readonly asks: 'cause' | 'when' | 'remedy'
  /** Path of a setting, and the least level of log lines. */
  readonly setting: string | null
  readonly level: string | null
  /** Whether it asks why something does not work as it should. */
  readonly complains: boolean
  /** The plugin of the feature in the question, and the error reason in it. */
  readonly topic: string | null
  /** Whether that plugin is off at the node that receives the question. */
  readonly off: boolean
  readonly error: string | null
  /** False for a guess. */
  readonly sure: boolean
  /** Interpretations of doubtful words, a sentence each. */
  readonly read: readonly string[]
  /** The question as a query for help's sheets. */
  readonly text: string
}

/** A question without its conversation; `counted`: its normalised words. */
export interface Read extends Understood { readonly counted: string, readonly weight: number }

/** Normalised words of a question that can refer to the earlier conversation. */
const SHORT = 12
/** An intent of this weight overrides the earlier conversation. */
const PLAIN_WEIGHT = 3

/**
 * Beginnings of a question that refers to the one before: "and on node2?", "what about svc/guide?", "why?".
 */
const LEANS = /^(?:and|also|then|what about|how about|but|so|or|same|why|since|again|fine)(?= |$)/
const POINTS = /(?:^| )(?:it|its|that|this|there|they|them|same|those|he|she)(?= |$)/

/** Intents about a name; without one they use the name of the question before. */
const NAMED = new Set<Intent>(['why-model', 'fit', 'slow', 'logs', 'node', 'what-if', 'why-request'])
/** Intents about facts; a "why" after them asks for faults. */
const TELLS = new Set<Intent>([
  'running', 'master', 'happened', 'then', 'disk', 'memory', 'settings', 'plugins', 'help', 'hello', 'other'
])
/** Intents that may be about a model on a node. */
const BOTH = new Set<Intent>(['why-model', 'logs', 'slow', 'fit', 'running', 'happened'])

/** Completes a question from the one before, else from the first sentence of the last answer. Pure. */
export function joined (own: Read, before: Understood | null, said: Read | null): Understood {
  const { counted, weight, ...asked } = own
  if (before === null && said === null) return settled(asked, counted)
  const [points, leans] = [POINTS.test(counted), LEANS.test(counted)]
  const short = counted.split(' ').length <= SHORT
  if (!short || !(points || leans || own.intent === 'other' || needsName(own))) {
    return settled(asked, counted)
  }
  const vague = own.intent === 'other' || (own.asks === 'remedy' && points) ||
    (own.asks === 'when' && weight < PLAIN_WEIGHT) || (leans && weight < PLAIN_WEIGHT)
  const intent = vague && before !== null ? kept(before, own) : own.intent
  const whole = named({ ...asked, intent }, before)
  const sure = whole.sure || (vague && before?.sure === true)
  if (hasName(whole) || said === null) return settled({ ...whole, sure }, counted)
  return settled({ ...whole, sure, model: said.model, node: said.model === null ? said.node : null }, counted)
}

/** True for an intent about a name, if the question has none, or no model. */
const needsName = (own: Understood): boolean =>
  NAMED.has(own.intent) && (!hasName(own) || (/^(?:logs|fit)$/.test(own.intent) && own.model === null))

const hasName = ({ model, node, id }: Understood): boolean => model !== null || node !== null || id !== null

/** The earlier intent, changed if it does not match what is named now. */
function kept (before: Understood, own: Read): Intent {
  const { intent } = before
  if (own.id !== null) return 'why-request'
  const about = own.model !== null ? 'why-model' : own.node !== null ? 'node' : null
  const other = /^(?:node|health|why-request|what-if|join|help|hello|other)$/.test(intent)
  if (about === 'why-model' && other) return about
  if (about === 'node' && /^(?:health|join|help|hello|other)$/.test(intent)) return about
  if (own.asks === 'cause' && /(?:^| )why(?= |$)/.test(own.counted) && TELLS.has(intent)) return 'health'
  return intent
}

function named (own: Understood, before: Understood | null): Understood {
  if (before === null) return own
  const when = own.when ?? (own.intent === before.intent ? before.when : null)
  if (!hasName(own)) return { ...own, when, model: before.model, node: before.node, id: before.id }
  const model = own.node !== null && BOTH.has(own.intent) ? own.model ?? before.model : own.model
  return { ...own, when, model }
}

/** Intents of someone who misses a plugin's feature. */
const MISSED = new Set<Intent>([
  'other', 'health', 'logs', 'happened', 'help', 'running', 'slow', 'fit', 'settings'
])

/** An intent that matches the recognised names. */
function settled (own: Understood, counted: string): Understood {
  const { intent, model, node, when, topic } = own
  if (misses(own, counted)) return { ...own, intent: 'feature' }
  // "Show me the event log."
  if (intent === 'logs' && topic === 'event-log') return { ...own, intent: 'happened' }
  const about = model !== null ? 'why-model' : node !== null ? 'node' : 'health'
  if (intent === 'why-model' && model === null) return { ...own, intent: about }
  if (intent === 'node' && node === null) return { ...own, intent: about }
  // Faults and events answer what happened to a subject.
  if (intent === 'happened' && when === null && about !== 'health') {
    return { ...own, intent: about, asks: 'when' }
  }
  if (intent === 'error' && about !== 'health') return { ...own, intent: about }
  if (intent === 'health' || (intent === 'other' && about !== 'health')) return { ...own, intent: about }
  return intent === 'other' && when !== null ? { ...own, intent: 'happened' } : own
}

/** Questions about a log that may not be written or sent. */
const WRITES = /(?:^| )(?:why|not|down|kept|written|recorded|counted|shipped|sent|arrives?)(?= |$)/

/** Whether it misses a plugin's feature: the plugin is off or does not work as it should. */
function misses (own: Understood, counted: string): boolean {
  const { intent, topic, off } = own
  if (topic === null || hasName(own)) return false
  if (off) return true
  if (own.when !== null || !MISSED.has(intent)) return false
  // "The error log" misses nothing.
  return intent === 'logs' ? WRITES.test(counted) : own.complains
}
