import {
  apiFailure, asApiError, CliError, exitCodes, interrupted, nearest, type ClientResponse, type Client,
  type VerbContext
} from '../../../kernel/cli/index.js'
import { decodeFrames, framedBody, FrameError, FRAMES_TYPE, type Frame } from '../frames/frames.js'
import type { ClientChunk } from '../../../kernel/index.js'
import type { Listing } from '../registry.js'
import type { Listed } from '../remote.js'

export type { Frame, Listed, Listing }

/** A call to make. `version` may be omitted if the node serves only one version. */
export interface Invocation {
  id: string
  version?: string
  payload: Record<string, unknown>
  /** Timeout in seconds for each chunk, including the first. */
  timeoutSeconds?: number
  /** Serving node by id, install id or name; default: the node of the connection. */
  node?: string
}

export function parseId (text: string): { id: string, version?: string } {
  const at = text.lastIndexOf('@')
  return at <= 0 ? { id: text } : { id: text.slice(0, at), version: text.slice(at + 1) }
}

export function listingPath (nodeId?: string): string {
  return `/v1/capabilities${nodeId === undefined ? '' : `?node_id=${encodeURIComponent(nodeId)}`}`
}

/**
 * Finds a capability in a listing. Throws CliError (3) that names the available ones or the disabled plugin.
 */
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
    throw new CliError(exitCodes.notFound, `the node has no capability "${name}": the ` +
      `plugin ${plugin}, which provides it, is disabled there\n  enable it: svc plugin enable ${plugin}`)
  }
  const near = nearest(name, names)
  throw new CliError(exitCodes.notFound, `the node has no capability "${name}"` +
    `${near === undefined ? '' : `; did you mean ${near}?`}\n  it has: ${names.join(', ') || 'none'}`)
}

export function invocationBody (
  found: Listed, call: { payload: unknown, timeoutSeconds?: number, node?: string }
): object {
  return {
    capability_id: found.id, version: found.version, descriptor_revision: found.revision,
    ...(call.node === undefined ? {} : { target_node: call.node }),
    ...(call.timeoutSeconds === undefined ? {} : { timeout_seconds: call.timeoutSeconds }),
    payload: call.payload
  }
}

/** Looks up a streaming capability, calls it and yields its frames. Throws CliError. */
export async function * invoke (ctx: VerbContext, call: Invocation): AsyncGenerator<Frame> {
  const found = await pick(ctx, await ctx.client.json<Listing>(listingPath(call.node)), call)
  yield * stream(ctx.client, ctx.signal, invocationBody(found, call))
}

/**
 * Opens a stream with a call, followed by chunks if given, and yields the answer's frames up to and including
 * `completed`. Throws CliError for a refusal, a `failed` or `cancelled` frame, and a broken connection.
 * Leaving the loop cancels the call.
 */
export async function * stream (
  client: Pick<Client, 'open'>, signal: AbortSignal, body: object, chunks?: AsyncIterable<ClientChunk>
): AsyncGenerator<Frame> {
  const leave = new AbortController()
  const call = chunks === undefined
    ? { body }
    : { upload: { type: FRAMES_TYPE, bytes: framedBody(body, chunks) } }
  const answer = await client.open('/v1/capabilities/stream',
    { method: 'POST', ...call, accept: FRAMES_TYPE, signal: leave.signal })
  try {
    for await (const frame of decodeFrames(answer.bytes)) {
      const { kind } = frame.header
      if (kind === 'failed' || kind === 'cancelled') throw failure(frame, answer, signal)
      yield frame
    }
  } catch (error) {
    if (signal.aborted) throw interrupted()
    if (!(error instanceof FrameError)) throw error
    throw new CliError(exitCodes.failed, `the response ended early: ${error.message}`)
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
