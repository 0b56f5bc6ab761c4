import { useState } from 'preact/hooks'
import { JoinDialog, RemoveButton } from '../cluster/node-actions.js'
import { nodes } from '../known.js'
import { ask } from '../link.js'
import { linkTo } from '../route.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Button, Copy, Opens, Trouble } from '../ui/parts.js'
import { done } from '../ui/toast.js'

export function Members () {
  // Reloads the members whenever a node comes or goes.
  const { value, error, again } = useAsk('GET /cluster/members',
    [nodes.value.filter(({ live }) => live).map(({ id }) => id).join()])
  const [round, setRound] = useState(0)
  if (error !== null) return <Trouble error={error} again={again} />
  return (
    <>
      <div class="inline">
        <Opens kind="main" onClosed={() => { setRound(round + 1) }} dialog={<JoinDialog />}>
          Connect a machine
        </Opens>
      </div>
      <ul class="rows">
        {value?.members.map((member) => (
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
              <RemoveButton
                words="Remove" label={`Remove ${member.name}`} onClosed={again} name={member.name}
                id={member.installId}
              />
            )}
          </li>
        ))}
      </ul>
      <JoinTokens round={round} />
    </>
  )
}

/** Lists the valid join tokens; a new `round` reloads the list. */
function JoinTokens ({ round }: { round: number }) {
  const { value, again } = useAsk('GET /cluster/join-tokens', [round])
  if (value === null || value.tokens.length === 0) return null
  return (
    <>
      <h3>Join tokens that still let a node in</h3>
      <ul class="rows">
        {value.tokens.map(({ id, expires }) => (
          <li key={id} class="row">
            <div class="grow">
              <Copy text={id} /> <span class="hint">until {new Date(expires).toLocaleString()}</span>
            </div>
            <Button
              label={`End join token ${id}`}
              onClick={async () => {
                await ask('DELETE /cluster/join-tokens/{id}', { params: [id] })
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
