import { askMembers, kernelError, MemberFault } from '../../../kernel/index.js'
import type {
  AskMemberParts, Clock, Cluster, Commands, MemberAnswer, RouteRequest
} from '../../../kernel/index.js'
import type { routes } from '../routes.js'

/** How long another node may take to say whether it knows a command, ms. */
const ASK_MS = 2_000
/** Answers are short; no more of one is read. */
const ANSWER_BYTES = 64 * 1024

interface CancelParts extends AskMemberParts {
  commands: Pick<Commands, 'cancel'>
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

type CancelRequest = Pick<RouteRequest<typeof routes.cancel>, 'params' | 'caller' | 'member' | 'signal'>

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
    const answers = member === null ? await askOthers(parts, request) : []
    if (answers === 'done') return done
    if (answers.some((answer) => reasonOf(answer) === 'missing_grant')) {
      throw kernelError('missing_grant', 'Cancelling another caller\'s command needs cluster:write.',
        { authority: 'cluster:write' })
    }
    const unreachable = answers.filter((answer) => reasonOf(answer) !== 'command_unknown')
      .map(({ node: { nodeId, name } }) => ({ nodeId, name }))
    const names = unreachable.map(({ name }) => name).join(', ')
    const missing = names === '' ? '' : ` where it could be asked for; ${names} did not answer`
    throw kernelError('command_unknown', `No command ${commandId} is running${missing}.`,
      unreachable.length === 0 ? {} : { unreachable })
  }
}

/** Asks every other live node at once; the first one that cancelled it ends the wait. */
async function askOthers (
  parts: CancelParts, { params, caller, signal }: CancelRequest
): Promise<MemberAnswer<true>[] | 'done'> {
  const others = parts.cluster.nodes().filter(({ self, live }) => live && !self)
  const asked = askMembers(parts, others, {
    method: 'POST', path: `/v1/cancel/${encodeURIComponent(params.command_id)}`, body: {},
    caller, signal, ms: ASK_MS, bytes: ANSWER_BYTES, refusals: true, read: () => true as const
  })
  const first = asked.map(async (answer) => {
    if ((await answer).error !== null) throw new Error('not there')
    return 'done' as const
  })
  return await Promise.any(first).catch(async () => await Promise.all(asked))
}

/** Why a node refused; undefined when it gave no answer that says so. */
function reasonOf ({ error }: MemberAnswer<true>): string | undefined {
  return error instanceof MemberFault ? error.refusal?.reason : undefined
}
