import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { useAsk, useLoaded } from '../ui/loading.js'
import {
  Badge, Button, ConfirmButton, Copy, Dialog, Empty, Field, Opens, RowText, Snippet, Trouble
} from '../ui/parts.js'
import { day } from '../ui/text.js'
import { ended } from '../ui/toast.js'
import { authorities, AuthorityChoice, endAfter, HowLong } from './authorities.js'

export function Tokens () {
  const { value, error, again } = useAsk('GET /v1/tokens', [])
  if (error !== null) return <Trouble error={error} again={again} />
  const list = (value?.tokens ?? []).filter(({ revoked }) => !revoked)
  return (
    <>
      <p class="hint">A token is good at this node only.</p>
      <div class="inline">
        <Opens needs="operator" kind="main" onClosed={again} dialog={<MakeDialog />}>Make a token</Opens>
      </div>
      {value !== null && list.length === 0 && <Empty title="There is no token besides the operator's." />}
      <ul class="rows">
        {list.map((token) => (
          <li key={token.id} class="row">
            <RowText
              hint={(
                <>
                  <Copy text={token.id} /> · made {day(token.created)} by {token.by}
                  {' · '}{token.expires === null ? 'does not end' : `ends ${day(token.expires)}`}
                  {' · '}{token.lastUsedDay === null ? 'never used' : `last used ${token.lastUsedDay}`}
                </>
              )}
            >
              {token.label} {token.authorities.map((one) => <Badge key={one}>{one}</Badge>)}
            </RowText>
            <ConfirmButton
              words="Revoke" label={`Revoke ${token.label}`} onClosed={again} danger
              title={`Revoke ${token.label}?`} action="Revoke it" onConfirm={async () => {
                ended(`${token.label} is revoked.`,
                  await ask('DELETE /v1/tokens/{id}', { params: [token.id] }))
              }}
            >
              <p>Whoever holds it is refused at once, and so is what was made with it.</p>
            </ConfirmButton>
          </li>
        ))}
      </ul>
    </>
  )
}

function MakeDialog () {
  const { value: known } = useLoaded(authorities, [])
  const [label, setLabel] = useState('')
  const [chosen, setChosen] = useState<readonly string[]>(['read', 'invoke'])
  const [days, setDays] = useState('90')
  const [made, setMade] = useState<string | null>(null)
  const make = async (): Promise<void> => {
    const body = { label, authorities: chosen, expires: endAfter(days) }
    setMade((await ask('POST /v1/tokens', { body })).token)
  }
  if (made !== null) {
    return (
      <Dialog title={`The token for ${label}`}>
        <div class="dialog-body"><p>It is shown this once.</p><Snippet label="The token" code={made} /></div>
      </Dialog>
    )
  }
  return (
    <Dialog title="Make a token">
      <div class="dialog-body form">
        <Field label="What is it for?" value={label} onText={setLabel} />
        <AuthorityChoice
          legend="What it may do" all={known ?? chosen} chosen={chosen} onChange={setChosen}
        />
        <HowLong days={days} onDays={setDays} last={['', 'no end']} />
      </div>
      <div class="dialog-foot">
        <Button kind="main" disabled={label.trim() === '' || chosen.length === 0} onClick={make}>
          Make it
        </Button>
      </div>
    </Dialog>
  )
}
