import { Tabs } from '../ui/tabs.js'
import { Chat } from './chat.js'
import { Listening } from './listening.js'
import { Live } from './live.js'
import { Speech } from './speech.js'

const MODES = {
  chat: { title: 'Chat', component: Chat },
  live: { title: 'Talk', component: Live },
  speech: { title: 'Speech', component: Speech },
  listening: { title: 'Speech to text', component: Listening }
}

export const PlaygroundPage = () => <Tabs page="playground" label="What to try" tabs={MODES} />
