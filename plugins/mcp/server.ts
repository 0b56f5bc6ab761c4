import {
  ProtocolError, ProtocolErrorCode, ResourceNotFoundError, Server, type CallToolResult, type ServerContext,
  type Tool as McpTool
} from '@modelcontextprotocol/server'
import { isVerbError, createGet, type DeclarationSet, type Tool } from '../../kernel/cli/index.js'
import {
  deadline, raceAbort, type Clock, type JsonSchema, type Manifest, type ToolDecl
} from '../../kernel/index.js'
import {
  invocationBody, listingPath, stream, type Listed, type Listing, type Frame
} from '../capabilities/cli/invoke.js'
import { Admission } from '../capabilities/service.js'
import { described, resultSchema, targets, type Target } from './tools.js'
import type { MediaCache, StoredMedia } from './media.js'
import type { Api } from './own.js'

/** Limits on concurrent and queued calls to read-only tools; capabilities have their own limits. */
const TOOL_LIMITS = { concurrency: 8, queue: 16 }
/** Timeout of a read-only tool in ms. */
const TOOL_TIMEOUT_MS = 15_000
/** Timeout in seconds for each chunk, including the first; the maximum that a node accepts. */
const CHUNK_SECONDS = 300
/** Minimum interval between progress notifications in ms. */
const PROGRESS_MS = 1000

const INSTRUCTIONS = 'svc serves models on a cluster of machines. `running` lists the placed models: ' +
  'capabilities such as chat and tts need one of them as `model`. The tools that inspect the cluster ' +
  'are read-only; the commands in their `remedy` are for the user to run.'

/** Dependencies that all MCP servers of a process share. */
export interface Shared {
  readonly clock: Clock
  readonly version: string
  readonly media: MediaCache
  readonly toolAdmission: Admission
  /** Manifests of the enabled plugins. */
  manifests (): readonly Manifest[] | Promise<readonly Manifest[]>
  declared (): Promise<DeclarationSet>
  checker (schema: JsonSchema): (value: unknown) => string | null
}

export interface Client {
  readonly id: string
  /** Whether to offer capabilities as tools. */
  readonly invokes: boolean
  /** Returns a client of the node's API that acts for this MCP client, until the signal aborts. */
  api (signal: AbortSignal): Api
}

export const createToolAdmission = (clock: Clock): Admission => new Admission('mcp tools', clock, TOOL_LIMITS)

/** The tools that a client may use. Throws VerbError if the node does not answer. */
async function offered (
  { manifests }: Pick<Shared, 'manifests'>, { invokes, api }: Client, signal: AbortSignal
): Promise<ReadonlyMap<string, Target>> {
  const listing = invokes ? await api(signal).json<Listing>(listingPath()) : { capabilities: [] }
  return targets(listing.capabilities, await manifests())
}

/** The tools in MCP's format; without capabilities if the node does not respond. */
export async function listed (shared: Shared, client: Client, signal: AbortSignal): Promise<McpTool[]> {
  const found = await offered(shared, client, signal).catch(async (error: unknown) => {
    if (!isVerbError(error)) throw error
    return targets([], await shared.manifests())
  })
  return [...found].map(([name, target]) => described(name, target))
}

/** Creates a stateless MCP server for one client; with `changing` it announces changes to the tools. */
export function createServer (shared: Shared, client: Client, changing: boolean): Server {
  const server = new Server({ name: 'svc', title: 'svc', version: shared.version }, {
    capabilities: { tools: { listChanged: changing }, resources: {} }, instructions: INSTRUCTIONS
  })
  server.setRequestHandler('tools/list', async (_request, { mcpReq: { signal } }) => ({
    tools: await listed(shared, client, signal)
  }))
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: args = {} } }, context) => {
    const known = await offered(shared, client, context.mcpReq.signal).catch(refused)
    if ('content' in known) return known
    const target = known.get(name)
    if (target === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams,
        `There is no tool "${name.slice(0, 64)}" here, or it needs an authority that the token lacks.`)
    }
    return target.kind === 'tool'
      ? await runTool(shared, client, name, target.tool, args, context.mcpReq.signal)
      : await invoke(shared, client, target.capability, args, context)
  })
  server.setRequestHandler('resources/list', () => ({
    resources: shared.media.of(client.id).map(({ uri, mimeType, bytes: { byteLength: size } }) =>
      ({ uri, name: uri.slice(uri.lastIndexOf('/') + 1), mimeType, size }))
  }))
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [] }))
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const found = shared.media.find(client.id, uri)
    if (found === undefined) throw new ResourceNotFoundError(uri.slice(0, 200))
    const blob = Buffer.from(found.bytes).toString('base64')
    return { contents: [{ uri, mimeType: found.mimeType, blob }] }
  })
  return server
}

async function runTool (
  { clock, toolAdmission, declared, checker }: Shared, client: Client, name: string, decl: ToolDecl,
  args: Record<string, unknown>, outer: AbortSignal
): Promise<CallToolResult> {
  const problem = checker(decl.args)(args)
  if (problem !== null) return textResult(`The arguments of ${name} are invalid: ${problem}.`, true)
  const release = await toolAdmission.enter(client.id, outer).catch((error: unknown) => {
    outer.throwIfAborted()
    return error as Error
  })
  if (release instanceof Error) return textResult(release.message, true)
  const { signal, stop } = deadline(clock, TOOL_TIMEOUT_MS,
    () => new Error(`no answer within ${TOOL_TIMEOUT_MS / 1000} s`), outer)
  try {
    const tool = (await decl.load()).default as Tool
    const finding = await raceAbort(
      tool.run({ look: createGet(client.api(signal)), nowMs: clock.now(), declared }, args), signal)
    return textResult(JSON.stringify(finding))
  } catch (error) {
    outer.throwIfAborted()
    const [why] = (error instanceof Error ? error.message : String(error)).split('\n')
    return textResult(`${name} failed: ${why!}.`, true)
  } finally {
    stop()
    release()
  }
}

async function invoke (
  { clock, media }: Shared, client: Client, capability: Listed, payload: Record<string, unknown>,
  context: ServerContext
): Promise<CallToolResult> {
  const { mcpReq: { signal } } = context
  const api = client.api(signal)
  try {
    const body = invocationBody(capability, { payload, timeoutSeconds: CHUNK_SECONDS })
    if (capability.io_mode === 'unary') {
      const { result } = await api.json<{ result: unknown }>('/v1/capabilities/call', { body })
      const text = textResult(typeof result === 'string' ? result : JSON.stringify(result))
      return resultSchema(capability) === undefined
        ? text
        : { ...text, structuredContent: result as Record<string, unknown> }
    }
    return await collected(stream(api, signal, body),
      (mimeType, bytes) => media.keep(client.id, mimeType, bytes), progressNotifier(clock, context))
  } catch (error) {
    signal.throwIfAborted()
    return refused(error)
  }
}

/** Notifies a client that requested progress, since many clients cancel a call after a minute of silence. */
function progressNotifier (
  clock: Clock, { mcpReq: { _meta: meta, notify } }: ServerContext
): (progress: Progress) => void {
  const progressToken = meta?.progressToken
  let lastMs = -Infinity
  return ({ chunks, seconds }) => {
    if (progressToken === undefined || clock.mono() - lastMs < PROGRESS_MS) return
    lastMs = clock.mono()
    const message = seconds > 0 ? { message: `${seconds.toFixed(1)} s of media` } : {}
    // Ignore a failure, because the call's signal also aborts when the client disconnects.
    notify({ method: 'notifications/progress', params: { progressToken, progress: chunks, ...message } })
      .catch(() => {})
  }
}

/** Limit in bytes on media inside a result; larger media are replaced by a link. */
const INLINE_BYTES = 1024 * 1024
/** Limits on the media (in bytes) and the text (in characters) of one call. */
const MEDIA_BYTES = 32 * 1024 * 1024
const TEXT_MOST = 4 * 1024 * 1024

interface Progress { readonly chunks: number, readonly seconds: number }

type Content = CallToolResult['content'][number]

const textResult = (text: string, isError = false): CallToolResult =>
  ({ content: [{ type: 'text', text }], ...isError ? { isError } : {} })

/** A VerbError as a tool result, so that the model can correct its next call. Rethrows other errors. */
export function refused (error: unknown): CallToolResult {
  if (!isVerbError(error)) throw error
  return textResult(error.message, true)
}

/**
 * Reads a stream to its end, and joins its media and its text. `keep` stores media that are too large for a
 * result. Throws VerbError if the stream fails.
 */
async function collected (
  frames: AsyncIterable<Frame>, keep: (mimeType: string, bytes: Uint8Array) => StoredMedia,
  onProgress: (progress: Progress) => void
): Promise<CallToolResult> {
  const payloads: string[] = []
  const media: Uint8Array[] = []
  const size = { text: 0, media: 0 }
  let about: Frame['header']['media'] = null
  let seconds = 0
  for await (const { header, media: bytes } of frames) {
    if (header.kind !== 'chunk') continue
    if (bytes === null) {
      const text = JSON.stringify(header.payload)
      size.text += text.length
      payloads.push(text)
    } else {
      about ??= header.media
      size.media += bytes.byteLength
      seconds += header.media?.duration_seconds ?? 0
      media.push(bytes)
    }
    if (size.text > TEXT_MOST || size.media > MEDIA_BYTES) {
      return textResult('The answer is too large for MCP: over ' +
        (size.media > MEDIA_BYTES ? `${MEDIA_BYTES} bytes of media` : `${TEXT_MOST} characters`) +
        '. Request less, or use POST /v1/capabilities/stream.', true)
    }
    onProgress({ chunks: payloads.length + media.length, seconds })
  }
  if (about === null) return textResult(textOf(payloads))
  const { media_type: mimeType, codec, sample_rate: rate, channels } = about
  const bytes = Buffer.concat(media)
  const facts = { media_type: mimeType, codec, sample_rate: rate, channels, bytes: bytes.byteLength,
    seconds: Math.round(seconds * 1000) / 1000 }
  return { content: [mediaContent(mimeType, bytes, keep), { type: 'text', text: JSON.stringify(facts) }] }
}

function mediaContent (
  mimeType: string, bytes: Buffer, keep: (mimeType: string, bytes: Uint8Array) => StoredMedia
): Content {
  const kind = /^(audio|image)\//.exec(mimeType)?.[1] as 'audio' | 'image' | undefined
  if (kind !== undefined && bytes.byteLength <= INLINE_BYTES) {
    return { type: kind, mimeType, data: bytes.toString('base64') }
  }
  const { uri } = keep(mimeType, bytes)
  return { type: 'resource_link', uri, name: `${kind ?? 'media'} of ${bytes.byteLength} bytes`, mimeType,
    size: bytes.byteLength }
}

interface Delta { content?: string | null, tool_calls?: unknown[] }

/** Joins the text of OpenAI chat chunks; writes other payloads as JSON, one line per chunk. */
function textOf (payloads: readonly string[]): string {
  const chunks = payloads.map((text) => JSON.parse(text) as
    { object?: unknown, choices?: { delta?: Delta }[] } | null)
  const deltas = chunks.flatMap((chunk) => chunk?.choices?.flatMap(({ delta }) => delta ?? []) ?? [])
  const chat = chunks.length > 0 && chunks.every((chunk) => chunk?.object === 'chat.completion.chunk') &&
    deltas.every(({ tool_calls: calls = [] }) => calls.length === 0)
  return chat ? deltas.map(({ content }) => content ?? '').join('') : payloads.join('\n')
}
