import {
  ProtocolError, ProtocolErrorCode, ResourceNotFoundError, Server
} from '@modelcontextprotocol/server'
import { isVerbError, createGet } from '../../kernel/cli/index.js'
import { raceAbort } from '../../kernel/index.js'
import { invocationBody, listingPath, stream } from '../capabilities/cli/invoke.js'
import { Admission } from '../capabilities/service.js'
import { collected, refused, textResult } from './result.js'
import { described, targets } from './tools.js'
import type { CallToolResult, ServerContext, Tool as McpTool } from '@modelcontextprotocol/server'
import type { DeclarationSet, Tool } from '../../kernel/cli/index.js'
import type { Clock, JsonSchema, Manifest, ToolDecl } from '../../kernel/index.js'
import type { Listed, Listing } from '../capabilities/cli/invoke.js'
import type { MediaCache } from './media.js'
import type { Api } from './own.js'
import type { Progress } from './result.js'
import type { Target } from './tools.js'

/** Read-only tools that run at once, and that wait. Capabilities have the node's own limits. */
const LOOKS = { concurrency: 8, queue: 16 }
/** Longest time of a read-only tool, ms. */
const LOOK_MS = 15_000
/** Longest wait for the first and each next chunk, s: the most that a node takes. */
const CHUNK_SECONDS = 300
/** Progress is told at most this often, ms. */
const PROGRESS_MS = 1000

const INSTRUCTIONS = 'svc serves models on a cluster of machines. `running` tells which are placed: ' +
  'capabilities such as chat and tts want one of them as `model`. The tools that look at the cluster ' +
  'change nothing; what they give under `remedy` is for the person to run.'

/** What all servers of a process share. */
export interface Shared {
  readonly clock: Clock
  readonly version: string
  readonly media: MediaCache
  readonly looks: Admission
  /** Of the plugins that are on. */
  manifests (): readonly Manifest[] | Promise<readonly Manifest[]>
  declared (): Promise<DeclarationSet>
  checker (schema: JsonSchema): (value: unknown) => string | null
}

/** Who a server works for. */
export interface Client {
  readonly id: string
  /** Whether capabilities are offered. */
  readonly invokes: boolean
  /** The node's API in the name of that one, until the signal aborts. */
  api (signal: AbortSignal): Api
}

/** The places for read-only tools of a process. */
export const createToolAdmission = (clock: Clock): Admission => new Admission('mcp tools', clock, LOOKS)

/** What a client may use now. Throws VerbError when the node does not answer. */
async function offered (
  { manifests }: Pick<Shared, 'manifests'>, { invokes, api }: Client, signal: AbortSignal
): Promise<ReadonlyMap<string, Target>> {
  const listing = invokes ? await api(signal).json<Listing>(listingPath()) : { capabilities: [] }
  return targets(listing.capabilities, await manifests())
}

/** The same as MCP lists it; without the capabilities while the node does not answer. */
export async function listed (shared: Shared, client: Client, signal: AbortSignal): Promise<McpTool[]> {
  const found = await offered(shared, client, signal).catch(async (error: unknown) => {
    if (!isVerbError(error)) throw error
    return targets([], await shared.manifests())
  })
  return [...found].map(([name, target]) => described(name, target))
}

/** An MCP server for one client, which holds nothing of its own. `changing`: it tells of new tools. */
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
      ? await look(shared, client, name, target.tool, args, context.mcpReq.signal)
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

async function look (
  { clock, looks, declared, checker }: Shared, client: Client, name: string, decl: ToolDecl,
  args: Record<string, unknown>, outer: AbortSignal
): Promise<CallToolResult> {
  const problem = checker(decl.args)(args)
  if (problem !== null) return textResult(`${name} was asked wrongly: ${problem}.`, true)
  const late = new AbortController()
  const signal = AbortSignal.any([outer, late.signal])
  const release = await looks.enter(client.id, signal).catch((error: unknown) => {
    outer.throwIfAborted()
    return error as Error
  })
  if (release instanceof Error) return textResult(release.message, true)
  const stop = clock.after(LOOK_MS, () => { late.abort(new Error(`no answer within ${LOOK_MS / 1000} s`)) })
  try {
    const tool = (await decl.load()).default as Tool
    const finding = await raceAbort(
      tool.run({ look: createGet(client.api(signal)), nowMs: clock.now(), declared }, args), signal)
    return textResult(JSON.stringify(finding))
  } catch (error) {
    outer.throwIfAborted()
    const [why] = (error instanceof Error ? error.message : String(error)).split('\n')
    return textResult(`${name} could not look: ${why!}.`, true)
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
      return textResult(JSON.stringify(result))
    }
    return await collected(stream(api, signal, body),
      (mimeType, bytes) => media.keep(client.id, mimeType, bytes), teller(clock, context))
  } catch (error) {
    signal.throwIfAborted()
    return refused(error)
  }
}

/** Tells a client that asked for it how far a call is: many end one that is silent for a minute. */
function teller (clock: Clock, { mcpReq: { _meta: meta, notify } }: ServerContext): (p: Progress) => void {
  const progressToken = meta?.progressToken
  let toldMs = -Infinity
  return ({ chunks, seconds }) => {
    if (progressToken === undefined || clock.mono() - toldMs < PROGRESS_MS) return
    toldMs = clock.mono()
    const message = seconds > 0 ? { message: `${seconds.toFixed(1)} s of media` } : {}
    // Who is gone hears nothing; the call ends by its signal.
    notify({ method: 'notifications/progress', params: { progressToken, progress: chunks, ...message } })
      .catch(() => {})
  }
}
