import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { Badge, Button, Confirm, Copy, Dialog, Empty, Snippet, Trouble, useLoaded } from '../ui/parts.js'
import { ended } from '../ui/toast.js'
import { authorities, AuthorityChoice } from './authorities.js'

interface Token {
  id: string, label: string, authorities: string[], created: string, expires: string | null
  lastUsedDay: string | null, revoked: boolean, by: string
}

const day = (at: string): string => new Date(at).toLocaleDateString()

export function Tokens () {
  const { value, error, again } = useLoaded(async (signal) =>
    (await ask<{ tokens: Token[] }>('/v1/tokens', { signal })).tokens, [])
  const [makes, setMakes] = useState(false)
  const [ends, setEnds] = useState<Token | null>(null)
  if (error !== null) return <Trouble error={error} again={again} />
  const list = (value ?? []).filter(({ revoked }) => !revoked)
  return (
    <>
      <p class="hint">A token is good at this node only.</p>
      <div class="inline">
        <Button kind="main" onClick={() => { setMakes(true) }}>Make a token</Button>
      </div>
      {value !== null && list.length === 0 && <Empty title="There is no token besides the operator's." />}
      <ul class="rows">
        {list.map((token) => (
          <li key={token.id} class="row">
            <div class="grow">
              <p class="row-title">
                {token.label} {token.authorities.map((one) => <Badge key={one}>{one}</Badge>)}
              </p>
              <p class="hint">
                <Copy text={token.id} /> · made {day(token.created)} by {token.by}
                {' · '}{token.expires === null ? 'does not end' : `ends ${day(token.expires)}`}
                {' · '}{token.lastUsedDay === null ? 'never used' : `last used ${token.lastUsedDay}`}
              </p>
            </div>
            <Button label={`Revoke ${token.label}`} onClick={() => { setEnds(token) }}>Revoke</Button>
          </li>
        ))}
      </ul>
      {makes && (
        <MakeDialog
          onClose={() => {
            setMakes(false)
            again()
          }}
        />
      )}
      {ends !== null && (
        <Confirm
          title={`Revoke ${ends.label}?`} action="Revoke it" danger onClose={() => { setEnds(null) }}
          onConfirm={async () => {
            ended(`${ends.label} is revoked.`, await ask(`/v1/tokens/${ends.id}`, { method: 'DELETE' }))
            again()
          }}
        >
          <p>Whoever holds it is refused at once, and so is what was made with it.</p>
        </Confirm>
      )}
    </>
  )
}

const DAYS = [['1', 'a day'], ['7', 'a week'], ['90', '90 days'], ['', 'no end']] as const

function MakeDialog ({ onClose }: { onClose: () => void }) {
  const { value: known } = useLoaded(authorities, [])
  const [label, setLabel] = useState('')
  const [chosen, setChosen] = useState<readonly string[]>(['read', 'invoke'])
  const [days, setDays] = useState('90')
  const [made, setMade] = useState<string | null>(null)
  const make = async (): Promise<void> => {
    const expires = days === '' ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString()
    const body = { label, authorities: chosen, expires }
    setMade((await ask<{ token: string }>('/v1/tokens', { body })).token)
  }
  if (made !== null) {
    return (
      <Dialog title={`The token for ${label}`} onClose={onClose}>
        <div class="dialog-body"><p>It is shown this once.</p><Snippet label="The token" code={made} /></div>
      </Dialog>
    )
  }
  return (
    <Dialog title="Make a token" onClose={onClose}>
      <div class="dialog-body form">
        <label for="token-label">What is it for?</label>
        <input
          id="token-label" value={label} onInput={({ currentTarget }) => { setLabel(currentTarget.value) }}
        />
        <AuthorityChoice
          legend="What it may do" all={known ?? chosen} chosen={chosen}
          onChange={(one, on) => {
            const rest = chosen.filter((other) => other !== one)
            setChosen(on ? [...rest, one] : rest)
          }}
        />
        <label for="token-days">How long</label>
        <select
          id="token-days" class="field" value={days}
          onChange={({ currentTarget }) => { setDays(currentTarget.value) }}
        >
          {DAYS.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
        </select>
      </div>
      <div class="dialog-foot">
        <Button kind="main" disabled={label.trim() === '' || chosen.length === 0} onClick={make}>
          Make it
        </Button>
      </div>
    </Dialog>
  )
}
