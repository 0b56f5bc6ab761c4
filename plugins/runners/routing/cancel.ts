import { askMembers, kernelError, MemberFault } from '../../../kernel/index.js'
import type {
  AskMemberParts, Clock, Cluster, Commands, MemberAnswer, RouteRequest
} from '../../../kernel/index.js'
import type { routes } from '../routes.js'

/** Limit in ms on the wait for another node to answer whether it runs a command. */
const ASK_MS = 2_000
const ANSWER_BYTES = 64 * 1024

interface CancelParts extends AskMemberParts {
  commands: Pick<Commands, 'cancel'>
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

type CancelRequest = Pick<RouteRequest<typeof routes.cancel>, 'params' | 'caller' | 'member' | 'signal'>

/**
 * Handler of POST /v1/cancel/:command_id: cancels a command that this or another node received. Throws
 * `missing_grant` if a node refused, or `command_unknown` with the nodes that did not answer.
 */
export function cancelHandler (parts: CancelParts): (request: CancelRequest) => Promise<unknown> {
  return async (request) => {
    const { params: { command_id: commandId }, caller, member } = request
    const done = { message: 'The command was cancelled.', command_id: commandId }
    if (parts.commands.cancel(commandId, caller)) return done
    // A forwarded request is not forwarded again, so that requests do not go in circles.
    const answers = member === null ? await askOthers(parts, request) : []
    if (answers === 'done') return done
    if (answers.some((answer) => reasonOf(answer) === 'missing_grant')) {
      throw kernelError('missing_grant', 'Cancelling another caller\'s command needs cluster:write.',
        { authority: 'cluster:write' })
    }
    const unreachable = answers.filter((answer) => reasonOf(answer) !== 'command_unknown')
      .map(({ node: { nodeId, name } }) => ({ nodeId, name }))
    const names = unreachable.map(({ name }) => name).join(', ')
    const missing = names === '' ? '' : ` on the nodes that answered; ${names} did not answer`
    throw kernelError('command_unknown', `No command ${commandId} is running${missing}.`,
      unreachable.length === 0 ? {} : { unreachable })
  }
}

/** Asks all other live nodes in parallel; the first node that cancels the command ends the wait. */
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

/** The reason why a node refused; undefined if its answer has none. */
function reasonOf ({ error }: MemberAnswer<true>): string | undefined {
  return error instanceof MemberFault ? error.refusal?.reason : undefined
}
