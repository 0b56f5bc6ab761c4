import {
  apiFailure, asApiError, CliError, exitCodes, interrupted, nearest
} from '../../../kernel/cli/index.js'
import { decodeFrames, FrameError } from '../frames/frames.js'
import type { ClientResponse, Client, VerbContext } from '../../../kernel/cli/index.js'
import type { Frame } from '../frames/frames.js'
import type { Listing } from '../registry.js'
import type { Listed } from '../remote.js'

export type { Frame, Listed, Listing }

/** What to invoke. The version may be left out where the node serves one only. */
export interface Invocation {
  id: string
  version?: string
  payload: Record<string, unknown>
  /** Longest wait for the first and for each next chunk, seconds; the node's default when absent. */
  timeoutSeconds?: number
  /** Node that is to serve it, by id, install id or name; the one that is asked when absent. */
  node?: string
}

/** Splits `ID@VERSION`; the version may be missing. */
export function parseId (text: string): { id: string, version?: string } {
  const at = text.lastIndexOf('@')
  return at <= 0 ? { id: text } : { id: text.slice(0, at), version: text.slice(at + 1) }
}

/** The address of the listing, of this node or of another. */
export function listingPath (nodeId?: string): string {
  return `/v1/capabilities${nodeId === undefined ? '' : `?node_id=${encodeURIComponent(nodeId)}`}`
}

/** Finds a capability in a listing. Throws CliError (3) naming what there is, or the plugin that is off. */
export async function pick (
  { declared }: Pick<VerbContext, 'declared'>, listing: Listing, wanted: { id: string, version?: string }
): Promise<Listed> {
  const name = wanted.version === undefined ? wanted.id : `${wanted.id}@${wanted.version}`
  const found = listing.capabilities.filter((c) =>
    c.id === wanted.id && (wanted.version === undefined || c.version === wanted.version))
  const names = listing.capabilities.map((c) => `${c.id}@${c.version}`)
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    const versions = names.filter((n) => n.startsWith(`${name}@`)).join(', ')
    throw new CliError(exitCodes.usage, `"${name}" has several versions: ${versions}`)
  }
  const plugin = (await declared()).manifests.find(({ capabilities = {} }) =>
    Object.values(capabilities).some(({ id }) => id === wanted.id))?.name
  if (plugin !== undefined && !listing.capabilities.some(({ id }) => id === wanted.id)) {
    throw new CliError(exitCodes.notFound, `the node has no capability "${name}": the plugin ${plugin}, ` +
      `which brings it, is off there\n  switch it on: svc plugin enable ${plugin}`)
  }
  const near = nearest(name, names)
  throw new CliError(exitCodes.notFound, `the node has no capability "${name}"` +
    `${near === undefined ? '' : `; did you mean ${near}?`}\n  it has: ${names.join(', ') || 'none'}`)
}

export function invocationBody (
  found: Listed, call: { payload: unknown, timeoutSeconds?: number, node?: string }
): object {
  return {
    capability_id: found.id,
    version: found.version,
    descriptor_revision: found.revision,
    ...(call.node === undefined ? {} : { target_node: call.node }),
    ...(call.timeoutSeconds === undefined ? {} : { timeout_seconds: call.timeoutSeconds }),
    payload: call.payload
  }
}

/** Discovers a streaming capability, calls it and yields its frames. Throws CliError. */
export async function * invoke (ctx: VerbContext, call: Invocation): AsyncGenerator<Frame> {
  const found = await pick(ctx, await ctx.client.json<Listing>(listingPath(call.node)), call)
  yield * stream(ctx.client, ctx.signal, invocationBody(found, call))
}

/**
 * Opens a stream and yields its frames up to and with `completed`. Throws CliError for a refusal, a `failed`
 * or `cancelled` end and a broken connection. Leaving the loop closes it, which cancels.
 */
export async function * stream (
  client: Pick<Client, 'open'>, signal: AbortSignal, body: object
): AsyncGenerator<Frame> {
  const leave = new AbortController()
  const answer = await client.open('/v1/capabilities/stream',
    { method: 'POST', body, accept: 'application/vnd.svc.frames', signal: leave.signal })
  try {
    for await (const frame of decodeFrames(answer.bytes)) {
      const { kind } = frame.header
      if (kind === 'failed' || kind === 'cancelled') throw failure(frame, answer, signal)
      yield frame
    }
  } catch (error) {
    if (signal.aborted) throw interrupted()
    if (!(error instanceof FrameError)) throw error
    throw new CliError(exitCodes.failed, `the node's answer broke off: ${error.message}`)
  } finally {
    leave.abort()
  }
}

function failure (frame: Frame, { headers }: Pick<ClientResponse, 'headers'>, signal: AbortSignal): CliError {
  if (signal.aborted) return interrupted()
  const api = asApiError(frame.header.error)
  if (api !== undefined) return apiFailure(typeof api.code === 'number' ? api.code : 500, api, '', headers)
  const { kind } = frame.header
  return new CliError(exitCodes.failed, kind === 'cancelled' ? 'the call was cancelled' : 'the call failed')
}
