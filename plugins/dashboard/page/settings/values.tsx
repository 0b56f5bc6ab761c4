import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Button, Empty, Field, Select, Trouble } from '../ui/parts.js'
import { done } from '../ui/toast.js'
import { fixedBy, grouped, kindOf, originText, readText, textOf, type Setting } from './editor.js'
import { RestartNotice } from '../cluster/node-actions.js'

export function Values () {
  const { value, error, again } = useAsk('GET /config', [])
  const [search, setSearch] = useState('')
  if (error !== null) return <Trouble error={error} again={again} />
  if (value === null) return <p class="waiting">Loading…</p>
  const groups = grouped([...value.entries, ...value.unset], search)
  return (
    <>
      {value.restart_needed && <RestartNotice />}
      <p class="hint">
        What this node has in force. Changes go to {value.file}; its restart puts them into force.
      </p>
      <Field
        label="Search the settings" unseen type="search" placeholder="Search the settings" value={search}
        onText={setSearch}
      />
      {groups.length === 0 && <Empty title="No setting is called that." />}
      {groups.map(([group, settings]) => (
        <details key={group} class="group" open={search !== '' || groups.length < 3}>
          <summary><h3>{group}</h3></summary>
          <ul class="rows">
            {settings.map((setting) => (
              <Row key={setting.path} setting={setting} revision={value.revision} onChanged={again} />
            ))}
          </ul>
        </details>
      ))}
    </>
  )
}

interface RowProps { setting: Setting, revision: string, onChanged: () => void }

function Row ({ setting, revision, onChanged }: RowProps) {
  const kind = kindOf(setting.schema)
  const before = textOf(kind, setting.value)
  const [text, setText] = useState<string | null>(null)
  const typed = text ?? before
  const changed = text !== null && text !== before
  const read = changed ? readText(setting.schema, typed) : null
  const problem = read !== null && 'problem' in read ? read.problem : null
  const fixed = fixedBy(setting)
  const write = async (value: unknown): Promise<void> => {
    await ask('PUT /config', { body: { revision, set: { [setting.path]: value } } })
    done(`${setting.path} is written to svc.yaml.`)
    setText(null)
    onChanged()
  }
  return (
    <li class="row">
      <div class="grow">
        <p class="row-title"><code>{setting.path}</code></p>
        <p class="hint">{setting.schema?.description}</p>
        <p class="hint">
          <Badge level={setting.origin === 'file' ? 'ok' : 'plain'}>{originText(setting)}</Badge>
          {setting.restart === true && <> <Badge level="warn">changed, needs a restart</Badge></>}
        </p>
      </div>
      <div class="setting">
        <Control kind={kind} setting={setting} text={typed} disabled={!!fixed} onText={setText} />
        {problem !== null && <p class="problem" role="alert">{problem}</p>}
        {fixed !== null && <p class="hint">{fixed}</p>}
        <div class="inline">
          {changed && read !== null && 'value' in read && (
            <Button needs="operator" kind="main" onClick={async () => { await write(read.value) }}>
              Write
            </Button>
          )}
          {changed && <Button kind="quiet" onClick={() => { setText(null) }}>Leave it</Button>}
          {!changed && fixed === null && setting.origin === 'file' && (
            <Button
              kind="quiet" label={`Default for ${setting.path}`} onClick={async () => { await write(null) }}
            >
              Default
            </Button>
          )}
        </div>
      </div>
    </li>
  )
}

interface ControlProps {
  kind: ReturnType<typeof kindOf>, setting: Setting, text: string, disabled: boolean
  onText: (text: string) => void
}

function Control ({ kind, setting: { path, schema }, text, ...more }: ControlProps) {
  const common = { label: path, unseen: true, value: text, ...more }
  if (kind === 'switch' || kind === 'choice') {
    const choices = kind === 'switch'
      ? [['true', 'yes'], ['false', 'no']] as const
      : schema!.enum!.map((one) => [String(one), String(one)] as const)
    return <Select {...common} options={text === '' ? [['', 'not set'], ...choices] : choices} />
  }
  if (kind === 'lines' || kind === 'json') {
    const hint = kind === 'lines' ? 'one in each line' : 'JSON'
    return <Field {...common} rows={3} spellcheck={false} placeholder={hint} />
  }
  const inputMode = kind === 'number' ? 'decimal' : 'text'
  return <Field {...common} inputMode={inputMode} spellcheck={false} placeholder="not set" />
}
