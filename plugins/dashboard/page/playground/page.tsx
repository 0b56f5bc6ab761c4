import { route } from '../route.js'
import { Tabs } from '../ui/tabs.js'
import { Chat } from './chat.js'
import { Completion } from './completion.js'
import { Embedding } from './embedding.js'
import { Speech } from './speech.js'
import type { ComponentType } from 'preact'

const MODES: Record<string, { title: string, component: ComponentType<{ asked: string | null }> }> = {
  chat: { title: 'Chat', component: Chat },
  speech: { title: 'Speech', component: Speech },
  completions: { title: 'Text', component: Completion },
  embeddings: { title: 'Vectors', component: Embedding }
}

export function PlaygroundPage () {
  const [name = 'chat', asked = null] = route.value.parts
  const known = name in MODES ? name : 'chat'
  const { component: Shown } = MODES[known]!
  return (
    <>
      <Tabs page="playground" label="What to try" tabs={MODES} shown={known} />
      <Shown asked={asked} />
    </>
  )
}
