import { join } from 'node:path'
import {
  definePlugin, kernelError, readVersioned, writeVersioned, askMembers, MemberFault, type Clock,
  type SvcError, type AskMemberParts, type Caller, type Cluster, type FromSchema, type NodeView
} from '../../kernel/index.js'
import { Budgets, BUDGETS_MOST, keptSchema, type Budget, type StoredBudgets } from './budgets.js'
import { manifest } from './manifest.js'
import { readAmount, showAmount } from './money.js'
import { PendingCalls, type Decision } from './waiting.js'
import type { routes } from './routes.js'

export default definePlugin(manifest, (ctx) => {
  const { deps: { cluster }, clock, node } = ctx
  const path = join(node.home, 'state', 'spending.json')
  const budgets = openBudgets(path, clock, ctx.checker(keptSchema))
  ctx.effect('budgets', () => { budgets.close() })
  const waiting = new PendingCalls({
    clock, waitMs: ctx.config.wait_seconds * 1000,
    asked: ({ id, capability, by, cost }) => { ctx.emit('ApprovalAsked', { id, capability, by, cost }) },
    expired: ({ id }) => { ctx.emit('ApprovalExpired', { id }) }
  })
  ctx.effect('pending approvals', () => { waiting.close() })
  const own = (): Listed => ({
    approvals: waiting.list().map((one) => ({ ...one, node: node.name })),
    budgets: budgets.all().map((budget) => shownBudget(budget, node.name))
  })
  return {
    services: {
      spending: {
        async allow (expense) {
          if (!budgets.take(expense.caller.id, expense.amount)) await waiting.ask(expense)
        }
      }
    },
    routes: {
      list: async (request) => {
        if (request.member !== null) return { ...own(), failed: [] }
        const { listed, failed } = await listOthers({ cluster, clock }, request)
        const all = [own(), ...listed]
        return {
          approvals: all.flatMap(({ approvals }) => approvals).sort((a, b) => a.asked < b.asked ? -1 : 1),
          budgets: all.flatMap((one) => one.budgets), failed
        }
      },
      decide: async (request) => {
        const { params: { id }, body: { decision, reason = null }, caller, member } = request
        const here = waiting.decide(id, { decision, reason, by: caller.id })
        if (here !== null) ctx.emit('ApprovalDecided', { id, decision, by: caller.id })
        const { decided, silent } = here !== null
          ? { decided: { decision, approval: { ...here, node: node.name } }, silent: [] }
          : member !== null
            ? { decided: null, silent: [] }
            : await decideElsewhere({ cluster, clock }, id, { decision, reason }, request)
        if (decided === null) {
          const unasked = silent.map(({ name, message }) => ` ${name} ${message}.`).join('')
          throw ctx.error('approval_not_found', `No call waits for the approval ${id}.${unasked}`)
        }
        const { by, capability, cost } = decided.approval
        request.note({ of: by, capability, cost })
        return decided
      },
      budget: ({ params: { caller }, body: { per_day: perDay } }) => {
        const amount = readAmount(perDay)
        if (amount === null) throw badAmount(perDay)
        if (!budgets.hasRoomFor(caller, amount)) {
          throw kernelError('overloaded', `${BUDGETS_MOST} budgets are set; remove some of them first.`)
        }
        budgets.set(caller, amount)
        const set = budgets.all().find((one) => one.caller === caller && one.unit === amount.unit)
        return shownBudget(set ?? { caller, unit: amount.unit, perDay: 0, spent: 0 }, node.name)
      }
    }
  }
})

/** Reads the budget file. Throws HomeError if it is unreadable, Error if a budget is invalid. */
function openBudgets (path: string, clock: Clock, problemOf: (value: unknown) => string | null): Budgets {
  const kept = readVersioned<StoredBudgets>(path, 1) ?? null
  const problem = kept === null ? null : problemOf(kept)
  if (problem !== null) throw new Error(`${path}: ${problem}; restore it from a backup or move it away`)
  return new Budgets({
    kept, today: () => new Date(clock.now()).toISOString().slice(0, 10),
    keep: (next) => { writeVersioned(path, 1, next) }
  })
}

function shownBudget ({ caller, unit, perDay, spent }: Budget, node: string): ShownBudget {
  return {
    caller, node, per_day: showAmount({ unit, nano: perDay }), spent: showAmount({ unit, nano: spent })
  }
}

function badAmount (text: string): SvcError {
  const message = `"${text}" is not an amount such as "5 EUR"`
  return kernelError('invalid_request', `per_day: ${message}`,
    { param: 'per_day', issues: [{ path: 'per_day', message }] })
}

type Reply = FromSchema<typeof routes.list.reply>
type ShownBudget = FromSchema<typeof routes.budget.reply>
/** Pending approvals and budgets of one node. */
export type Listed = Pick<Reply, 'approvals' | 'budgets'>
export type Decided = FromSchema<typeof routes.decide.reply>
type UnreachableNode = Reply['failed'][number]

interface PeerParts extends AskMemberParts { readonly cluster: Cluster, readonly clock: Clock }
interface Asking { readonly caller: Caller, readonly signal: AbortSignal }

const PEER_MS = 5000
const PEER_BYTES = 1024 * 1024

const others = (cluster: Cluster): NodeView[] => cluster.nodes().filter(({ self, live }) => !self && live)

/** Pending approvals of the other nodes, and the nodes that did not answer. */
async function listOthers (
  parts: PeerParts, { caller, signal }: Asking
): Promise<{ listed: Listed[], failed: UnreachableNode[] }> {
  const answers = await Promise.all(askMembers(parts, others(parts.cluster), {
    path: '/v1/approvals', caller, signal, ms: PEER_MS, bytes: PEER_BYTES,
    read: (text) => JSON.parse(text) as Listed
  }))
  return {
    listed: answers.flatMap(({ value }) => value ?? []),
    failed: answers.flatMap(({ node: { name }, error }) =>
      error === null ? [] : [{ name, message: error.message }])
  }
}

/**
 * Sends the decision to all other nodes, because only the node that runs the call has the approval. `decided`
 * is null if no other node has it.
 */
async function decideElsewhere (
  parts: PeerParts, id: string, body: Omit<Decision, 'by'>, { caller, signal }: Asking
): Promise<{ decided: Decided | null, silent: UnreachableNode[] }> {
  const answers = await Promise.all(askMembers(parts, others(parts.cluster), {
    method: 'POST', path: `/v1/approvals/${id}`, body, caller, signal, ms: PEER_MS, bytes: PEER_BYTES,
    read: (text) => JSON.parse(text) as Decided
  }))
  const decided = answers.find(({ value }) => value !== null)?.value ?? null
  const silent = answers.flatMap(({ node: { name }, error }) =>
    error === null || (error instanceof MemberFault && error.status === 404)
      ? []
      : [{ name, message: error.message }])
  return { decided, silent }
}
