/** An event of the log in words, for the command line and the page. */

interface Event { event: Record<string, unknown> }

export const kindOf = ({ event }: Event): string => Object.keys(event)[0] ?? ''
export const fieldsOf = (one: Event): Record<string, unknown> =>
  one.event[kindOf(one)] as Record<string, unknown> | undefined ?? {}

/** `NodeJoined` as `Node joined`. */
export function kindWords (kind: string): string {
  const words = kind.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Length to which random ids are shortened. A long name without a digit is no id. */
const SHORT = 8
const RANDOM = /^(?=\D*\d)[0-9a-z-]{20,}$/

/** Shortens an object with one key, such as a runner's status, to the key, and a random id to 8 letters. */
function short (value: unknown): string {
  if (Array.isArray(value)) return value.map(short).join(', ')
  if (value !== null && typeof value === 'object') {
    const keys = Object.keys(value)
    return keys.length === 1 ? keys[0]! : JSON.stringify(value)
  }
  return typeof value === 'string' && RANDOM.test(value) ? value.slice(0, SHORT) : String(value)
}

const BARE = ['modelId', 'nodeId', 'nodeIds', 'status', 'message', 'errorMessage']

/** The fields of an event on one line, most important first, with node names instead of ids. */
export function summaryOf (one: Event, nameOf: (nodeId: string) => string): string {
  const fields = Object.entries(fieldsOf(one)).filter(([, value]) => value !== null)
  const place = ([key]: [string, unknown]): number => BARE.includes(key) ? BARE.indexOf(key) : BARE.length
  return fields.sort((a, b) => place(a) - place(b)).map(([key, value]) => {
    const text = /nodeIds?$/i.test(key)
      ? [value].flat().map((id) => nameOf(String(id))).join(', ')
      : short(value)
    return BARE.includes(key) ? text : `${kindWords(key).toLowerCase().replace(/ id$/, '')} ${text}`
  }).join(' · ')
}
