import type { Declarations } from './services.js'

/** A disabled plugin, and the one to enable first: a disabled plugin that it requires, otherwise itself. */
export interface OffPlugin { plugin: string, enable: string }

/** The disabled plugin that provides this model, engine or capability (by id); undefined if there is none. */
export function offPlugin (
  { off }: Pick<Declarations, 'off'>, kind: 'models' | 'engines' | 'capabilities', name: string
): OffPlugin | undefined {
  const found = off.find(({ [kind]: all = {}, capabilities = {} }) => kind === 'capabilities'
    ? Object.values(capabilities).some(({ id }) => id === name)
    : Object.hasOwn(all, name))
  if (found === undefined) return undefined
  let last = found
  for (;;) {
    const next = off.find((one) => last.requires?.includes(one.name))
    if (next === undefined) return { plugin: found.name, enable: last.name }
    last = next
  }
}

/** Ends a not-found message: names the disabled plugin that provides what is missing; empty if none does. */
export const becauseOff = (off: OffPlugin | undefined): string =>
  off === undefined ? '' : `: the plugin ${off.plugin}, which provides it, is disabled`

export const switchOn = ({ enable }: OffPlugin): string => `Enable it: \`svc plugin enable ${enable}\`.`
