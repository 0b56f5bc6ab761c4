import { useEffect, useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { Button, Confirm, Opens, Section, Select } from '../ui/parts.js'
import { ModelChoice, WithModels } from './catalogue.js'
import { Composer } from './composer.js'
import { Thread } from './thread.js'
import {
  answering, begin, compare, conversation, list, load, notKept, open, remove, removeAll, useModel, useSettings
} from './session.js'
import { SettingsFields } from './settings-fields.js'
import type { Model } from './catalogue.js'

export const Chat = ({ asked }: { asked: string | null }) => (
  <WithModels task="chat" asked={asked} none="There is no chat model in this cluster.">
    {(models) => <Lanes models={models} asked={asked} />}
  </WithModels>
)

function Lanes ({ models, asked }: { models: Model[], asked: string | null }) {
  const [known, setKnown] = useState(false)
  useEffect(() => { void load().then(() => { setKnown(true) }) }, [])
  const preset = models[0]!.id
  useEffect(() => { if (known) takeModel(asked, preset) }, [known, asked, preset])
  if (!known) return null
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

/** Selects the model in the URL, in a new conversation if the current one has messages for another model. */
function takeModel (asked: string | null, preset: string): void {
  const { changedAt, lanes } = conversation.value
  const has = lanes[0]!.model
  if (asked !== null && asked !== has && !lanes.some(({ model }) => model === asked)) {
    if (changedAt === 0) useModel(0, asked)
    else begin(asked, conversation.value.settings)
  } else if (has === '') useModel(0, preset)
}

function Conversations () {
  const { id, changedAt } = conversation.value
  const options = list.value.map((one) => [one.id, one.title] as const)
  const deletes = (title: string, act: () => Promise<void>) => (close: () => void) => (
    <Confirm title={title} action="Delete" danger onConfirm={act} onClose={close}>
      <p>They are kept in this browser only, so nobody has another copy.</p>
    </Confirm>
  )
  return (
    <>
      <Select
        label="Conversation" unseen class="conversations" value={id} onText={open}
        options={changedAt === 0 ? [[id, 'New conversation'], ...options] : options}
      />
      <Button onClick={() => { begin(undefined, conversation.value.settings) }}>New</Button>
      {changedAt > 0 && (
        <Opens kind="quiet" dialog={deletes('Delete this conversation?', remove)}>Delete</Opens>
      )}
      {list.value.length > 1 && (
        <Opens kind="quiet" dialog={deletes('Delete all conversations?', removeAll)}>Delete all</Opens>
      )}
    </>
  )
}

function Choices ({ models }: { models: Model[] }) {
  const { lanes } = conversation.value
  const two = lanes.length > 1
  // Put the selected model into the URL, so that a reload or a bookmark selects it again.
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
  const deaf = chosen.filter(({ resolved_capabilities: can }) => can['tools'] !== true).map((one) => one.id)
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
