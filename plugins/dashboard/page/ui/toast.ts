import { signal } from '@preact/signals'
import { ApiError } from '../api.js'

export interface Toast { id: number, kind: 'done' | 'failed', text: string, remedy: string | null }

const STAYS_MS = 6000
let last = 0
export const toasts = signal<readonly Toast[]>([])

function add (kind: Toast['kind'], text: string, remedy: string | null = null): void {
  const id = ++last
  toasts.value = [...toasts.value, { id, kind, text, remedy }].slice(-4)
  // Errors stay until they are dismissed.
  if (kind === 'done') setTimeout(() => { dismiss(id) }, STAYS_MS)
}

export function dismiss (id: number): void { toasts.value = toasts.value.filter((one) => one.id !== id) }

export function done (text: string): void { add('done', text) }

/** Reports that a credential ended, and each member that it admitted (older nodes do not list them). */
export function ended (text: string, { admitted = [] }: { admitted?: readonly { name: string }[] }): void {
  done(text)
  for (const { name } of admitted) {
    add('failed', `It admitted ${name}, which stays a member.`, 'The list of members can remove it.')
  }
}

export function failed (error: unknown): void {
  if (error instanceof ApiError) add('failed', error.message, error.remedy)
  else add('failed', error instanceof Error ? error.message : String(error))
}
