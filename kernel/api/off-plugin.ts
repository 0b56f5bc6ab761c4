import type { Declarations } from './services.js'

/** A plugin that is off, and the one to enable for it: what it requires may be off as well. */
export interface OffPlugin { plugin: string, enable: string }

/** The plugin that is off and brings this model, engine or capability (by its id); undefined for none. */
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

/** The end of a sentence about a missing thing; empty if no plugin is off for it. */
export const becauseOff = (off: OffPlugin | undefined): string =>
  off === undefined ? '' : `: the plugin ${off.plugin}, which provides it, is disabled`

export const switchOn = ({ enable }: OffPlugin): string => `Enable it: \`svc plugin enable ${enable}\`.`
