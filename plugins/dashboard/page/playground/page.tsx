import { Tabs } from '../ui/tabs.js'
import { Chat } from './chat.js'
import { Completion } from './completion.js'
import { Embedding } from './embedding.js'
import { Speech } from './speech.js'

const MODES = {
  chat: { title: 'Chat', component: Chat },
  speech: { title: 'Speech', component: Speech },
  completions: { title: 'Text', component: Completion },
  embeddings: { title: 'Vectors', component: Embedding }
}

export const PlaygroundPage = () => <Tabs page="playground" label="What to try" tabs={MODES} />
