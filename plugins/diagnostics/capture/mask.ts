import { HIDDEN, withoutUrlSecrets } from '../../../kernel/index.js'

export const MASK = HIDDEN

/** Keys whose values are masked completely. */
const SECRET_KEY =
  /(^|[_-])(authorization|cookie|password|passphrase|secret|token|api[_-]?key|private[_-]?key)$/i
/** Like SECRET_KEY, for names in camelCase. */
const SECRET_NAME = /(Authorization|Cookie|Password|Passphrase|Secret|Token|ApiKey|PrivateKey)$/

/** Patterns for svc secrets and for secrets from other services. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/svc_(op|app|dev|join)_[0-9A-Za-z]{8,}(_[0-9A-Za-z]+)?/g, `svc_$1_${MASK}`],
  [/svcjoin1_[A-Za-z0-9_-]+/g, `svcjoin1_${MASK}`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, MASK],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${MASK}`],
  [/\b(hf|sk|ghp|gho|glpat|xox[abp])([_-])[A-Za-z0-9_-]{10,}/g, `$1$2${MASK}`],
  [/([?&](?:[\w-]*token|[\w-]*key|secret|password|sig|signature)=)[^&\s"'#]+/gi, `$1${MASK}`]
]

/** Masks substrings that look like a secret, and the `known` secrets. */
export function maskText (text: string, known: readonly string[] = []): string {
  const without = known.reduce((left, secret) => secret === '' ? left : left.replaceAll(secret, MASK), text)
  return PATTERNS.reduce((left, [pattern, put]) => left.replace(pattern, put), withoutUrlSecrets(without))
}

/** A JSON value with masked strings; the values of secret keys are masked completely. */
export function masked (value: unknown, known: readonly string[] = []): unknown {
  if (typeof value === 'string') return maskText(value, known)
  if (Array.isArray(value)) return value.map((one) => masked(one, known))
  if (typeof value !== 'object' || value === null) return value
  // In a list of settings, a secret is in `value` and its name in `path`, so check the name there too.
  const { path } = value as { path?: unknown }
  const setting = typeof path === 'string' && isSecret(path.slice(path.lastIndexOf('.') + 1))
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => {
    const hide = typeof inner === 'string' && inner !== '' && (isSecret(key) || (setting && key === 'value'))
    return [maskText(key, known), hide ? MASK : masked(inner, known)]
  }))
}

const isSecret = (name: string): boolean => SECRET_KEY.test(name) || SECRET_NAME.test(name)
