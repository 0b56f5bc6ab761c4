import { computed, signal } from '@preact/signals'
import { send, type CallOptions, type Target } from '../api.js'
import { call, here } from '../link.js'
import type { Replies } from '../../../../docs/reference/replies.js'

/** Another origin to call, if chosen. Its token is only in memory and is sent only to that origin. */
export const other = signal<Target | null>(null)
/** The node whose capabilities are listed and called; empty for the connected node. */
export const nodeId = signal('')

export const target = computed<Target>(() => other.value ?? here.value)

export function useOther (next: Target | null): void {
  nodeId.value = ''
  other.value = next
}

export const request = async (path: string, options: CallOptions = {}): Promise<Response> =>
  other.value === null ? await call(path, options) : await send(other.value, path, options)

type Listing = Replies['GET /v1/capabilities']
export type Descriptor = Listing['capabilities'][number]

export async function list (signal: AbortSignal): Promise<Descriptor[]> {
  const query = nodeId.value === '' ? '' : `?node_id=${encodeURIComponent(nodeId.value)}`
  const response = await request(`/v1/capabilities${query}`, { signal })
  return (await response.json() as Listing).capabilities
}
