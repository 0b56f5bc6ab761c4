// Chat: conversations with one model, or with two side by side.
import { useEffect, useId, useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { Button, Confirm, Empty, Section, Trouble } from '../ui/parts.js'
import { ModelChoice, useModels } from './catalogue.js'
import { Composer } from './composer.js'
import { Thread } from './thread.js'
import {
  answering, begin, compare, conversation, list, load, notKept, open, remove, removeAll, useModel, useSettings
} from './session.js'
import { SettingsFields } from './settings-fields.js'
import type { Model } from './catalogue.js'

export function Chat ({ asked }: { asked: string | null }) {
  const { models, error } = useModels('chat')
  const [known, setKnown] = useState(false)
  useEffect(() => { void load().then(() => { setKnown(true) }) }, [])
  const preset = models?.find(({ ready }) => ready)?.id ?? models?.[0]?.id
  useEffect(() => { if (known) takeModel(asked, preset) }, [known, asked, preset])
  if (error !== null && models === null) return <Trouble error={error} />
  if (models === null || !known) return <p class="waiting" role="status">Asking for the models…</p>
  if (models.length === 0) {
    return (
      <Empty title="There is no chat model in this cluster.">
        <a href={linkTo('models')}>Find one</a>
      </Empty>
    )
  }
  return (
    <Section title="Chat" aside={<Conversations />}>
      <Choices models={models} />
      <Options models={models} />
      {notKept.value !== null && <p class="problem">{notKept.value}</p>}
      <div class="lanes">
        {conversation.value.lanes.map((lane, index) => (
          <Thread key={`${conversation.value.id} ${index}`} lane={lane} index={index} />
        ))}
      </div>
      <Composer models={models} />
    </Section>
  )
}

/** The model of the address: in this conversation, or in another one when this is with another model. */
function takeModel (asked: string | null, preset: string | undefined): void {
  const { changedAt, lanes } = conversation.value
  const has = lanes[0]!.model
  if (asked !== null && asked !== has && !lanes.some(({ model }) => model === asked)) {
    if (changedAt === 0) useModel(0, asked)
    else begin(asked, conversation.value.settings)
  } else if (has === '' && preset !== undefined) useModel(0, preset)
}

function Conversations () {
  const id = useId()
  const [clears, setClears] = useState<'this' | 'all' | null>(null)
  const { id: shown, changedAt } = conversation.value
  return (
    <>
      <label class="visually-hidden" for={id}>Conversation</label>
      <select
        id={id} class="field conversations" value={shown}
        onChange={({ currentTarget }) => { open(currentTarget.value) }}
      >
        {changedAt === 0 && <option value={shown}>New conversation</option>}
        {list.value.map((one) => <option key={one.id} value={one.id}>{one.title}</option>)}
      </select>
      <Button onClick={() => { begin(undefined, conversation.value.settings) }}>New</Button>
      {changedAt > 0 && <Button kind="quiet" onClick={() => { setClears('this') }}>Delete</Button>}
      {list.value.length > 1 && <Button kind="quiet" onClick={() => { setClears('all') }}>Delete all</Button>}
      {clears !== null && (
        <Confirm
          title={clears === 'this' ? 'Delete this conversation?' : 'Delete all conversations?'}
          action="Delete" danger onConfirm={clears === 'this' ? remove : removeAll}
          onClose={() => { setClears(null) }}
        >
          <p>They are kept in this browser only, so nobody has another copy.</p>
        </Confirm>
      )}
    </>
  )
}

function Choices ({ models }: { models: Model[] }) {
  const { lanes } = conversation.value
  const two = lanes.length > 1
  // The address names what is chosen, so that a reload and a bookmark find it again.
  const choose = (index: number, model: string): void => {
    useModel(index, model)
    if (index === 0) history.replaceState(null, '', linkTo('playground', 'chat', model))
  }
  const other = models.find(({ id, ready }) => ready && id !== lanes[0]!.model)?.id ?? lanes[0]!.model
  return (
    <div class="choices-row">
      {lanes.map(({ model }, index) => (
        <ModelChoice
          key={index} models={models} value={model} label={two ? `Model ${index + 1}` : 'Model'}
          onChoose={(id) => { choose(index, id) }}
        />
      ))}
      <Button disabled={answering.value} onClick={() => { compare(two ? null : other) }}>
        {two ? 'Only the first model' : 'Compare with another'}
      </Button>
    </div>
  )
}

function Options ({ models }: { models: Model[] }) {
  const { settings, lanes, id } = conversation.value
  const chosen = models.filter((one) => lanes.some(({ model }) => model === one.id))
  const deaf = chosen.filter(({ resolved_capabilities: can }) => !can.tools).map((one) => one.id)
  const set = [
    settings.system === '' ? 0 : 1, Object.keys(settings.sampling).length, settings.tools.length
  ].reduce((a, b) => a + b)
  return (
    <details class="group">
      <summary><h3>Settings{set > 0 ? ` (${set} set)` : ''}</h3></summary>
      <SettingsFields key={id} settings={settings} onChange={useSettings} withoutTools={deaf} />
    </details>
  )
}
