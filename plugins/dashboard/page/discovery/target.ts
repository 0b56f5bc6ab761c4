import { computed, signal } from '@preact/signals'
import { send } from '../api.js'
import { call, here, latest } from '../link.js'
import { nodesOf } from '../state.js'
import type { CallOptions, Target } from '../api.js'

/** Another origin. Its token is in memory, is sent to that origin only, and is dropped with it. */
export const other = signal<Target | null>(null)
/** The node whose capabilities are listed and called; empty for the one that answers. */
export const nodeId = signal('')

export const target = computed<Target>(() => other.value ?? here.value)

export function useOther (next: Target | null): void {
  nodeId.value = ''
  other.value = next
}

/** Sends a request to the origin that is looked at. */
export const request = async (path: string, options: CallOptions = {}): Promise<Response> =>
  other.value === null ? await call(path, options) : await send(other.value, path, options)

/** The nodes of this cluster that can be asked. */
export const choices = computed(() => nodesOf(latest.value).filter(({ live }) => live)
  .map(({ id, name, local }) => ({ id, name: local ? `${name} (this node)` : name })))

export interface Descriptor {
  id: string, version: string, title: string, description: string
  io_mode: 'unary' | 'server_streaming' | 'client_streaming' | 'bidirectional'
  input_schema: Record<string, unknown>, output_schema: Record<string, unknown> | null
  input_chunk_schema: Record<string, unknown> | null, output_chunk_schema: Record<string, unknown> | null
  annotations: Record<string, string>, revision: string, node_id: string
}

export async function list (signal: AbortSignal): Promise<Descriptor[]> {
  const query = nodeId.value === '' ? '' : `?node_id=${encodeURIComponent(nodeId.value)}`
  const response = await request(`/v1/capabilities${query}`, { signal })
  return (await response.json() as { capabilities: Descriptor[] }).capabilities
}
