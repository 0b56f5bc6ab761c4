// The members of the cluster with their keys, and the join tokens that still let a node in.
import { useState } from 'preact/hooks'
import { JoinDialog } from '../cluster/join.js'
import { RemoveDialog } from '../cluster/node-actions.js'
import { ask, state } from '../link.js'
import { linkTo } from '../route.js'
import { nodesOf } from '../state.js'
import { Badge, Button, Copy, Trouble, useLoaded } from '../ui/parts.js'
import { done } from '../ui/toast.js'

interface Member {
  installId: string, nodeId: string | null, name: string, fingerprint: string, addresses: string[]
  joinedAt: string, live: boolean, master: boolean, self: boolean, version: string | null
}
interface JoinToken { id: string, expires: string, by?: string }

export function Members () {
  // Asked for again whenever a node comes or goes.
  const nodes = state.value.topology.nodes.join()
  const members = useLoaded(async (signal) =>
    (await ask<{ members: Member[] }>('/cluster/members', { signal })).members, [nodes])
  const [round, setRound] = useState(0)
  const [joins, setJoins] = useState(false)
  const [removes, setRemoves] = useState<Member | null>(null)
  if (members.error !== null) return <Trouble error={members.error} again={members.again} />
  const removed = removes === null
    ? undefined
    : nodesOf(state.value).find(({ identity }) => identity?.nodeInstallId === removes.installId)
  return (
    <>
      <div class="inline">
        <Button kind="main" onClick={() => { setJoins(true) }}>Connect a machine</Button>
      </div>
      <ul class="rows">
        {(members.value ?? []).map((member) => (
          <li key={member.installId} class="row">
            <div class="grow">
              <p class="row-title">
                <a href={linkTo('cluster', member.installId)}>{member.name}</a>
                <Badge level={member.live ? 'ok' : 'error'}>{member.live ? 'live' : 'lost'}</Badge>
                {member.master && <Badge>master</Badge>}
                {member.self && <Badge>this page</Badge>}
              </p>
              <p class="hint">
                {member.addresses.join(', ')} · joined {new Date(member.joinedAt).toLocaleString()}
                {' · key '}<Copy text={member.fingerprint} shown={member.fingerprint.slice(0, 12)} />
              </p>
            </div>
            {!member.self && (
              <Button label={`Remove ${member.name}`} onClick={() => { setRemoves(member) }}>Remove</Button>
            )}
          </li>
        ))}
      </ul>
      <JoinTokens round={round} />
      {joins && (
        <JoinDialog
          onClose={() => {
            setJoins(false)
            setRound(round + 1)
          }}
        />
      )}
      {removed !== undefined && (
        <RemoveDialog
          node={removed} onClose={() => {
            setRemoves(null)
            members.again()
          }}
        />
      )}
    </>
  )
}

/** The join tokens that are still good; asked for again in each round. */
function JoinTokens ({ round }: { round: number }) {
  const { value, again } = useLoaded(async (signal) =>
    (await ask<{ tokens: JoinToken[] }>('/cluster/join-tokens', { signal })).tokens, [round])
  if (value === null || value.length === 0) return null
  return (
    <>
      <h3>Join tokens that still let a node in</h3>
      <ul class="rows">
        {value.map(({ id, expires }) => (
          <li key={id} class="row">
            <div class="grow">
              <Copy text={id} /> <span class="hint">until {new Date(expires).toLocaleString()}</span>
            </div>
            <Button
              label={`End join token ${id}`}
              onClick={async () => {
                await ask(`/cluster/join-tokens/${id}`, { method: 'DELETE' })
                done('That join token lets nobody in any more.')
                again()
              }}
            >
              End it
            </Button>
          </li>
        ))}
      </ul>
    </>
  )
}
