import { kernelError } from '../../../kernel/index.js'
import type { Cluster, Commands, NodeView, RouteRequest } from '../../../kernel/index.js'
import { shortText } from './remote/short-text.js'
import type { routes } from '../routes.js'

/** How long another node may take to say whether it knows a command, ms. */
const ASK_MS = 2_000
/** Answers are short; no more of one is read. */
const ANSWER_BYTES = 64 * 1024

export interface CancelParts {
  commands: Pick<Commands, 'cancel'>
  cluster: Pick<Cluster, 'nodes' | 'request'>
}

type CancelRequest = Pick<RouteRequest<typeof routes.cancel>, 'params' | 'caller' | 'member' | 'signal'>

/** What a node says of a command: `done`, the reason of its refusal, or that it gave no answer. */
interface Word { node: NodeView, said: string }

/**
 * Handler of POST /v1/cancel/:command_id: a command that entered the cluster at another node is cancelled
 * there. Throws `missing_grant` where a node refused, `command_unknown` with the nodes that did not answer.
 */
export function cancelHandler (parts: CancelParts): (request: CancelRequest) => Promise<unknown> {
  return async (request) => {
    const { params: { command_id: commandId }, caller, member } = request
    const done = { message: 'The command was cancelled.', command_id: commandId }
    if (parts.commands.cancel(commandId, caller)) return done
    // What another node passed on stays here, so that no question goes in circles.
    const words = member === null ? await askAll(parts, request) : []
    if (words === 'done') return done
    if (words.some(({ said }) => said === 'missing_grant')) {
      throw kernelError('missing_grant', 'Cancelling another caller\'s command needs cluster:write.',
        { authority: 'cluster:write' })
    }
    const unreachable = words.filter(({ said }) => said === UNREACHABLE)
      .map(({ node: { nodeId, name } }) => ({ nodeId, name }))
    const names = unreachable.map(({ name }) => name).join(', ')
    const missing = names === '' ? '' : ` where it could be asked for; ${names} did not answer`
    throw kernelError('command_unknown', `No command ${commandId} is running${missing}.`,
      unreachable.length === 0 ? {} : { unreachable })
  }
}

const DONE = 'done'
const UNREACHABLE = 'unreachable'

/** Asks every live node at once; the first one that cancelled it ends the wait. */
async function askAll (parts: CancelParts, request: CancelRequest): Promise<Word[] | 'done'> {
  const asked = parts.cluster.nodes().filter(({ self, live }) => live && !self)
    .map(async (node): Promise<Word> => ({ node, said: await ask(parts, node, request) }))
  const first = asked.map(async (word) => {
    if ((await word).said !== DONE) throw new Error('not there')
    return 'done' as const
  })
  return await Promise.any(first).catch(async () => await Promise.all(asked))
}

async function ask (
  { cluster }: CancelParts, { installId }: NodeView, { params, caller, signal }: CancelRequest
): Promise<string> {
  try {
    const { status, body } = await cluster.request(installId, {
      method: 'POST',
      path: `/v1/cancel/${encodeURIComponent(params.command_id)}`,
      body: {},
      caller,
      signal,
      timeoutMs: ASK_MS
    })
    body.on('error', () => {})
    if (status === 200) {
      body.resume()
      return DONE
    }
    return reasonIn(await shortText(body as AsyncIterable<Uint8Array>, ANSWER_BYTES))
  } catch {
    return UNREACHABLE
  }
}

/** The reason in an error body: two of them answer the question. Throws when the text is no such body. */
function reasonIn (text: string): string {
  const { error } = JSON.parse(text) as { error: { reason: unknown } }
  return error.reason === 'command_unknown' || error.reason === 'missing_grant' ? error.reason : UNREACHABLE
}
