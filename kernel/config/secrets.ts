/** What a secret looks like wherever settings are shown. */
export const hidden = '********'

const reference = /\$\{env\.([A-Za-z_][A-Za-z0-9_]*)\}/g

/** What became of a text with references to the environment. */
export type Expanded =
  | { readonly kind: 'plain' }
  | { readonly kind: 'value', readonly text: string, readonly whole: boolean }
  | { readonly kind: 'problem', readonly message: string }

/**
 * Puts the values of `${env.NAME}` into a text. `whole` says that the text was one reference and nothing
 * else. What a variable holds is never expanded again.
 */
export function expandEnv (text: string, env: Readonly<Record<string, string | undefined>>): Expanded {
  const names = [...text.matchAll(reference)].map((match) => match[1] ?? '')
  const malformed = text.replace(reference, '').includes('${env.')
  if (malformed) return { kind: 'problem', message: 'a reference to the environment is written ${env.NAME}' }
  if (names.length === 0) return { kind: 'plain' }
  const missing = [...new Set(names.filter((name) => env[name] === undefined))]
  if (missing.length > 0) {
    const variables = missing.length === 1 ? 'variable' : 'variables'
    return { kind: 'problem', message: `the environment has no ${variables} ${missing.join(', ')}` }
  }
  const whole = names.length === 1 && text === `\${env.${names[0] ?? ''}}`
  return { kind: 'value', text: text.replace(reference, (_, name: string) => env[name] ?? ''), whole }
}

/** True for `${NAME}`, which is kept as written and probably meant `${env.NAME}`. */
export function looksLikeReference (text: string): boolean { return /\$\{[A-Za-z_]\w*\}/.test(text) }
