// The caller's authorities at the current node.
import { effect, signal } from '@preact/signals'
import { ask, caller, origin, status } from './link.js'

/** Authorities of the caller; null until the node has answered. */
const held = signal<readonly string[] | null>(null)

effect(() => {
  const at = `${origin.value} ${caller.value}`
  if (status.value !== 'live') return
  const isCurrent = (): boolean => at === `${origin.value} ${caller.value}`
  ask('GET /v1/whoami').then(({ authorities }) => { if (isCurrent()) held.value = authorities },
    () => { if (isCurrent()) held.value = null })
})

/** Why the caller may not do what needs this authority; undefined if it may, or while that is unknown. */
export function lacks (authority: string | undefined): string | undefined {
  if (authority === undefined || held.value?.includes(authority) !== false) return undefined
  return `This needs the authority ${authority}. Sign in with the button above to get it.`
}
